#pragma once
// Which variables a block hides before it assigns them.
//
// The reference compiles each block to a function, so a name that a block assigns, and does not read before that in the block itself, is one of its
// own variables from the start: blocks inside it find it undefined until the assignment has run, even where the caller gave a variable of that name.
//     {% for m in messages %}{{ tools }}{% endfor %}{% set tools = 1 %}     prints nothing for tools
// A name that only some branches of an `if` assign is not hidden, and neither is one that an outer block already knows.
#include "text/template/ast.h"

namespace cellar::jinja {

// Fills every `hidden` of the program.
void find_hidden(Program& program);

}  // namespace cellar::jinja
