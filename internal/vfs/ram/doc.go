// Package ram contains the parts of the in-memory file systems: Bytes, the sparse content of a file
// that shares pages with its copies, and Node, the tree of names with the rules of POSIX for
// changing it.
//
// It returns the same results and error numbers as a Linux file system. It acquires no locks: its
// only users, vfs.Memory and internal/testing/crashfs, do. It knows nothing of open files, crashes
// or durability.
package ram
