//go:build breakrules

package storage

import "github.com/chronik-io/chronik/internal/storage/journal"

// broken names the rules that a test has removed.
type broken struct {
	rules   rule
	journal journal.Broken
}

func (b broken) has(r rule) bool           { return b.rules&r != 0 }
func (b broken) inJournal() journal.Broken { return b.journal }
