package vfs

// placed is a File that knows whether a name still leads to it.
type placed interface {
	InPlace(name string) (bool, error)
}

// InPlace reports whether a name leads to an open file. An open file whose name was removed, or
// given to another file, can be used until it is closed, and is lost then. Of a file that does not
// know, InPlace reports true.
func InPlace(f File, name string) (bool, error) {
	if p, ok := f.(placed); ok {
		return p.InPlace(name)
	}
	return true, nil
}
