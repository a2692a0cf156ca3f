//go:build breakrules

package sim

import (
	"github.com/chronik-io/chronik/internal/controller/election"
	"github.com/chronik-io/chronik/internal/replica/progress"
)

func (r removed) inProgress() progress.Broken { return progress.Broken{Rules: r.progress} }
func (r removed) inElection() election.Broken { return election.Broken{Rules: r.election} }
