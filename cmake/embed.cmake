# cmake -DIN=FILE -DOUT=FILE.c -DNAME=SYMBOL -P embed.cmake: a file as a C array and its size, since C17
# has no #embed and ISO C limits string literals.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR bytes "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," values "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" values
       "${values}")
file(WRITE ${OUT} "extern const char ${NAME}[];\nextern const unsigned ${NAME}_bytes;\n"
  "const char ${NAME}[] = {\n${values}\n};\nconst unsigned ${NAME}_bytes = ${bytes};\n")
