package upload

// Pieces of a log are in classes by their bytes: the bounds are 16 KiB, 256 KiB, 4 MiB, and so on.
const (
	firstBound = 16 << 10
	fan        = 16
)

// class returns the class of a piece of n bytes.
func class(n int64) (c int) {
	for n /= firstBound; n > 0; n /= fan {
		c++
	}
	return c
}

// merge returns how many of the pieces of a log stay, where pieces are their bytes in order and
// next those of the records after them: the others and these records become one piece. The classes
// of a log's pieces never rise, and fewer than 16 are of one class. So there are at most 15 pieces
// of each class, and a byte is uploaded once in each class, if a piece has 1 KiB or more.
func merge(pieces []int64, next int64) (stay int) {
	stay = len(pieces)
	for {
		same := stay
		for ; same > 0; same-- {
			if c := class(pieces[same-1]); c < class(next) {
				next, stay = next+sum(pieces[same-1:stay]), same-1
			} else if c > class(next) {
				break
			}
		}
		if stay-same+1 < fan {
			return stay
		}
		next, stay = next+sum(pieces[same:stay]), same
	}
}

func sum(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}
