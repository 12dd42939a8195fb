# The C of a document: programs (with a main) as NAME.c, where the block behind one begins with "$ ./NAME" with what
# it prints as NAME.expected, others as STEM-N.c; fragments in a function, STEM-fragment-N.c; C++ as STEM-N.cpp.
# usage: awk -v stem=STEM -v to=FOLDER -f documents.awk DOCUMENT
function put(name, text) { printf "%s", text >(to "/" name); close(to "/" name) }

function end_program(name, output) {
    if (program == "") return
    programs += 1
    if (name == "") name = stem "-" programs
    put(name ".c", program)
    if (output != "") put(name ".expected", output)
    program = ""
}

function fragment(    k, n, lines, body) {
    n = split(text, lines, "\n")
    for (k = 1; k < n; k++)
        if (lines[k] != "...") body = body lines[k] "\n"
    fragments += 1
    put(stem "-fragment-" fragments ".c", "#include \"around.h\"\nint fragment(void)\n{\n" body "return 0;\n}\n")
}

function end_block(    first) {
    if (kind == "c") {
        end_program("", "")
        if (text ~ /int main\(/) program = text
        else fragment()
    } else if (kind == "c++") {
        end_program("", "")
        programs += 1
        put(stem "-" programs ".cpp", text)
    } else if (text ~ /^\$ \.\/[a-z_]+\n/) {
        first = index(text, "\n")
        end_program(substr(text, 5, first - 5), substr(text, first + 1))
    }
}

/^```/ {
    if (kind != "") { end_block(); kind = "" }
    else { kind = $0 == "```c" ? "c" : $0 == "```cpp" ? "c++" : "other"; text = "" }
    next
}
kind != "" { text = text $0 "\n" }
END { end_program("", "") }
