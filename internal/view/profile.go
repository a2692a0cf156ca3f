package view

import (
	"time"

	"github.com/chronik-io/chronik/pkg/durability"
)

// Profiles is the response of GET /v1/profiles: the durability profiles of a broker.
type Profiles struct {
	Default string    `json:"default"` // the one of topics that set none
	List    []Profile `json:"profiles"`
	// Groups has the log directories in which the journal has synced since the start.
	Groups []GroupCommits `json:"groups"`
}

// Profile is a durability profile. Times are in milliseconds, and sizes in bytes.
type Profile struct {
	Name       string          `json:"name"`
	Default    bool            `json:"default"` // topics that set none have it
	Ack        durability.Ack  `json:"ack"`
	Sync       durability.Sync `json:"sync"`
	MaxWaitMs  float64         `json:"maxWaitMs"`
	MaxRecords int             `json:"maxRecords"`
	MaxBytes   int64           `json:"maxBytes"`
	IntervalMs float64         `json:"intervalMs"`
	Doc        string          `json:"doc"`
	Waits      *CommitWaits    `json:"waits"` // nil if nothing has waited under it, or if that is unknown
}

// CommitWaits is how long group commits have waited under a profile since the start.
type CommitWaits struct {
	Count  int64   `json:"count"`
	MeanMs float64 `json:"meanMs"`
}

// GroupCommits describes the group commits of a log directory since the start. The means are of
// those that one fdatasync made durable together.
type GroupCommits struct {
	Dir         string  `json:"dir"`
	Count       int64   `json:"count"` // at least 1
	MeanRecords float64 `json:"meanRecords"`
	MeanBytes   float64 `json:"meanBytes"`
	MeanSyncMs  float64 `json:"meanSyncMs"`
}

// ProfileOf returns a profile without measurements. standard is the name of the default profile.
func ProfileOf(p durability.Profile, standard string) Profile {
	return Profile{Name: p.Name, Default: p.Name == standard, Ack: p.Ack, Sync: p.Sync, MaxWaitMs: milliseconds(p.MaxWait),
		MaxRecords: p.MaxRecords, MaxBytes: p.MaxBytes, IntervalMs: milliseconds(p.Interval), Doc: p.Doc}
}

// Durability returns the profile as the broker uses it.
func (p *Profile) Durability() durability.Profile {
	return durability.Profile{Name: p.Name, Doc: p.Doc, Ack: p.Ack, Sync: p.Sync, MaxRecords: p.MaxRecords, MaxBytes: p.MaxBytes,
		MaxWait: duration(p.MaxWaitMs), Interval: duration(p.IntervalMs)}
}

// Promise returns what a loss of power does to acknowledged records of one replica, as a clause:
// "nothing acknowledged is lost".
func (p *Profile) Promise() string {
	return p.Durability().Promise(durability.Setting{Acks: -1, Replicas: 1, MinISR: 1}, durability.LeaderPowerLoss).String()
}

// Weak reports whether the profile acknowledges records that are only written, not durable.
func (p *Profile) Weak() bool { return p.Ack == durability.Written }

// Standard returns the default profile, the zero Profile if it is not in the list.
func (p *Profiles) Standard() Profile {
	for i := range p.List {
		if p.List[i].Default {
			return p.List[i]
		}
	}
	return Profile{}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
