package journal

import "fmt"

// DamageKind says in which way a journal is damaged.
type DamageKind uint8

// The kinds of damage that make a start refuse a journal.
const (
	// MissingFile: the first file that is needed is not there.
	MissingFile DamageKind = iota + 1
	// NoHeader: it has no valid header.
	NoHeader
	// BeginsLate: it begins above the first LSN that is needed.
	BeginsLate
	// Foreign: a file belongs to another journal.
	Foreign
	// InvalidFrame: a frame is not what was written, or not there, and a later one
	// knew it to be synced.
	InvalidFrame
)

// Damage is damage, and where it is. It matches ErrDamaged.
type Damage struct {
	Kind DamageKind
	File string // name in the journal's directory
	// Pos is where the chain of valid frames ended in File; of InvalidFrame only. LSN
	// is the first that is missing, Proof the one that tells.
	Pos        int64
	LSN, Proof LSN

	text string
}

// Error says what is wrong and where.
func (d *Damage) Error() string { return fmt.Sprintf("%v: %s", ErrDamaged, d.text) }

// Unwrap makes it match ErrDamaged.
func (d *Damage) Unwrap() error { return ErrDamaged }

func missing(dir string, from Position) error {
	name := fileName(from.File)
	return &Damage{Kind: MissingFile, File: name, LSN: from.LSN, text: fmt.Sprintf("%s is needed and missing in %s", name, dir)}
}
