package election

import "github.com/chronik-io/chronik/internal/breakrules"

// Rule is a rule that a test can remove to prove that the walks of internal/testing/sim detect
// its absence. See package breakrules.
type Rule uint32

// The rules, named after what happens without them.
const (
	KeepMissing     Rule = 1 << iota // a replica whose directory was replaced stays in ISR and ELR
	KeepLossy                        // a replica that may have lost records stays in ISR and ELR
	ResumeEpoch                      // a leader continues in its epoch after a restart
	ReturnLeaves                     // a replica that returns whole leaves the ISR
	ForgetISR                        // an election from the ELR forgets the other members
	FenceWithoutELR                  // a fenced member of a small ISR is not eligible
	AnyLast                          // the record's last replica is any that returned without its records
	CompleteEarly                    // a reassignment is complete before all of its replicas are in sync
	DropInSync                       // a reassignment drops members of ISR and ELR, however few remain
	KeepEpoch                        // a leader continues in its epoch after replicas were removed
	ReportedEpoch                    // an unclean election takes the epoch after the latest one that was reported
	LeaveOneByOne                    // of those that leave the ISR in one decision, only the last ones are eligible
	LeaveUnaware                     // a replica leaves the ISR before it knows that it does not lead any longer
	LeadUnable                       // a leader that leaves gives way to one that cannot write although it can
	LeadUncompared                   // a replica that is not compared leads
	LeaveOne                         // what leaves an ISR of which one member remains is not eligible
	CompareAlone                     // a replica leads by comparison with no other one
	CompareLed                       // a comparison counts the epochs in which a log led
	ForgetLoss                       // the loss of the only replica begins no epoch as after an unclean election
)

// Broken names the rules that a test has removed.
type Broken = breakrules.Removed[Rule]
