# kernelcast_embed_prompts(OUTPUT HEADER a/b.h NAMESPACE n FILES folder/file ...): compiles prompts
# into the program. Generates the source OUTPUT, which defines EmbeddedPromptFiles(), declared in
# HEADER. Paths are relative to the current folder's prompts/. Some compilers limit a literal to 64
# KiB; these files are far smaller.
set(KERNELCAST_EMBEDDED_PROMPTS ${CMAKE_CURRENT_LIST_DIR}/embedded_prompts.cc.in)

function(kernelcast_embed_prompts output)
  cmake_parse_arguments(ARG "" "HEADER;NAMESPACE" "FILES" ${ARGN})
  set(kernelcast_prompt_entries)
  foreach(file IN LISTS ARG_FILES)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS prompts/${file})
    file(READ prompts/${file} text)
    get_filename_component(folder ${file} DIRECTORY)
    get_filename_component(name ${file} NAME)
    string(APPEND kernelcast_prompt_entries
      "    {\"${folder}\", \"${name}\",\n     R\"kc_prompt(${text})kc_prompt\"},\n")
  endforeach()
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_prompts.cc)
  configure_file(${KERNELCAST_EMBEDDED_PROMPTS} ${source} @ONLY)
  set(${output} ${source} PARENT_SCOPE)
endfunction()
