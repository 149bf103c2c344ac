#ifndef KERNELCAST_COMMON_RPC_ACCEPT_GUARD_H_
#define KERNELCAST_COMMON_RPC_ACCEPT_GUARD_H_

namespace kernelcast {

// gRPC 1.51 never accepts again on a listener once a connection could not be accepted, be it that
// the process had no descriptor left: who opens enough of them would end a server for good. What is
// linked with this has an accept4() of its own, which, once it is told to, closes a connection at
// once whose descriptor is among the last that the process may have, so that these remain for
// files, pipes and children, or for which there is none; and which passes over connections that
// are gone already. It logs what it closes, now and then. RpcServer tells it to.
void GuardAccept();

// Lets this process have as many descriptors as it is allowed, within reason.
void RaiseDescriptorLimit();

}  // namespace kernelcast

#endif  // KERNELCAST_COMMON_RPC_ACCEPT_GUARD_H_
