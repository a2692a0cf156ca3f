package loglife

import "github.com/chronik-io/chronik/internal/states"

// Role is what a log is in its partition, in the leader epoch that it was last told.
type Role uint8

// The roles of a log.
const (
	// NoRole: it was opened or created, and has no leader epoch yet.
	NoRole Role = iota
	// Leading: it assigns the offsets of its records.
	Leading
	// Held: it leads, but followers may have other records at the same offsets and epoch: its own
	// were discarded, or it has records of a later epoch.
	Held
	// Following: it has the records of another broker.
	Following
)

// RoleUse is a use that a role allows.
type RoleUse uint16

// The uses that a role may allow.
const (
	Own    RoleUse = 1 << iota // appends whose offsets the log assigns
	Copied                     // appends of its leader, which assigned the offsets
	Leads                      // the log leads
)

// RoleEvent is an event that concerns the role of a log.
type RoleEvent uint8

// The events of a role.
const (
	Lead       RoleEvent = iota // a new epoch, in which it leads
	LeadBehind                  // the same, and it has records of a later epoch
	Follow                      // a new epoch, in which it follows
	Discarded                   // records of the epoch were discarded
	Resumed                     // no other replica can have them
)

// On returns the role that follows an event, and the effect of the event.
func (r Role) On(e RoleEvent) (Role, states.Answer) { return roles.On(r, e) }

// Allows reports whether the role allows at least one of the given uses.
func (r Role) Allows(u RoleUse) bool { return roles.Allows(r, u) }

// String returns the role's name in the table.
func (r Role) String() string { return roles.Rows[r].Name }

// String returns the event's name in the table.
func (e RoleEvent) String() string { return roles.Events[e] }

// role returns a row, which hears every event: a new epoch ends every role.
func role(name string, allows RoleUse, discarded, resumed Role) states.Row[Role, RoleEvent, RoleUse] {
	return states.Row[Role, RoleEvent, RoleUse]{Name: name, Allows: allows, Next: map[RoleEvent]Role{
		Lead: Leading, LeadBehind: Held, Follow: Following, Discarded: discarded, Resumed: resumed,
	}}
}

var roles = states.New(
	[]string{"own", "copied", "leads"},
	[]string{"lead", "lead behind", "follow", "discarded", "resumed"},
	[]states.Row[Role, RoleEvent, RoleUse]{
		NoRole:    role("no role", 0, states.Ignore, states.Ignore),
		Leading:   role("leading", Own|Leads, Held, states.Ignore),
		Held:      role("held", Leads, states.Ignore, Leading),
		Following: role("following", Copied, states.Ignore, states.Ignore),
	},
)
