package vfs

import "fmt"

// FreeName returns a name next to a directory that nothing has, for what an operator moves away. It
// is the same at each call until something gets it.
func FreeName(fsys FS, dir string) string {
	const most = 100 // an operator has removed them long before
	name := dir + ".away"
	for i := 2; i < most; i++ {
		if _, err := fsys.Stat(name); err != nil {
			break
		}
		name = fmt.Sprintf("%s.away%d", dir, i)
	}
	return name
}
