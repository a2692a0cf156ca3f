package controller

import "github.com/chronik-io/chronik/internal/breakrules"

// rule is a rule that a test can remove to prove that the walks detect its absence. See package
// breakrules.
type rule uint32

// The rules, named after what happens without them.
const (
	leaseToTheEnd    rule = 1 << iota // a lease lasts a whole session after the controller was confirmed
	ignoreUntil                       // the former controller's leases count as over when the next one begins
	equalClocks                       // a lease is as long as the session
	TrustAnswers                      // an answer proves although its revision is not applied
	activateUnproven                  // a broker becomes active with its first heartbeat
	answerEnded                       // a session that ends proves something until its end is written
	KeepUnable                        // a log directory that failed counts as failed for ever
	refuseUnheard                     // a refused dial ends the session of a process that was not heard in this term
)

// broken names the rules that a test has removed.
type broken = breakrules.Removed[rule]
