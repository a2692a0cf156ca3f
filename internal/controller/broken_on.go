//go:build breakrules

package controller

// broken names the rules that a test has removed.
type broken struct{ rules rule }

// TrustAnswers is for tests of whole brokers.
const TrustAnswers = trustAnswers

// Everywhere are rules that are removed in all of the process, for tests of whole brokers. It must
// not change while a broker runs.
var Everywhere rule

func (b broken) has(r rule) bool { return (b.rules|Everywhere)&r != 0 }
