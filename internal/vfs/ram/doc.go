// Package ram holds what the in-memory file systems are made of: Bytes, the
// sparse content of a file that can be copied in constant time per page, and
// Node, the tree of names with the rules that POSIX has for changing it.
//
// It promises the same answers and error numbers as a Linux file system gives.
// It locks nothing: vfs.Memory and vfs/crashfs, its only users, do. It knows
// nothing of open files, crashes or durability.
package ram
