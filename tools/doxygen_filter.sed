# Turns the plain comments that hold the headers' contracts into Doxygen's, before a declaration
# and behind one.
1s:^/\* :/** @file\
 * :
/^\/\* -/!s:^/\* :/** :
s:\([;,]\) *\/\* :\1 /**< :
s:^\( *[A-Z_0-9a-z]* = [^,]*[0-9)]\) *\/\* :\1 /**< :
