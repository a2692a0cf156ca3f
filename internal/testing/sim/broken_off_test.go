//go:build !breakrules

package sim

import (
	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

func (r removed) inProgress() progress.Broken {
	_ = r.progress // an ordinary build removes nothing
	return progress.Broken{}
}

func (r removed) inElection() election.Broken {
	_ = r.election
	return election.Broken{}
}
