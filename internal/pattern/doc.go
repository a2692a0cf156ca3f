// Package pattern compiles regular expressions of clients (RE2), which must match names as a whole.
//
// It bounds what an expression may cost: the memory of its program, before anything is built, and
// the steps that the program may take for the names that it is compared with. A kilobyte can ask
// for a program of 400 MB that takes ten seconds for a name of a kilobyte. The package knows
// neither who sends the expression nor what the names mean.
package pattern
