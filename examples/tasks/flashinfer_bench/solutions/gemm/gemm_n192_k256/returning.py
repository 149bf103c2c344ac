def run(A, B):
    return A @ B.T
