package durability

import "time"

// driedUp is how many of the recent gaps may pass without an entry before a group stops waiting:
// one slow producer must not hold 127 fast ones.
const driedUp = 2

// few connections are absent if the group has that many records for each of them: waiting longer
// would cost the group more than it could save.
const few = 16

// Close implements Policy for every Profile: a journal calls it for a group whose entries all have
// this profile. The group closes
//
//   - at once if the profile never waits (MaxWait 0, or no SyncGroup);
//   - when its first entry has waited for MaxWait;
//   - when the profile's own Policy returns true or no wait, if it has one; otherwise
//   - when it has MaxRecords or MaxBytes,
//   - early when hardly any producer is expected to send: few connections that
//     produced recently are absent, so a closed loop of clients never waits for the window,
//   - early when arrivals have dried up, that is when twice the recent gap has
//     passed since the newest entry.
//
// Any other answer has a wait greater than 0 that ends at MaxWait at the latest.
func (p Profile) Close(g Group) (now bool, wait time.Duration) {
	left := p.MaxWait - g.Age
	if p.Sync != SyncGroup || left <= 0 {
		return true, 0
	}
	if p.Policy != nil {
		now, wait = p.Policy.Close(g)
		if now || wait <= 0 {
			return true, 0
		}
		return false, min(wait, left)
	}
	if g.Records >= p.MaxRecords || g.Bytes >= p.MaxBytes || max(g.Absent, 0)*few <= g.Records {
		return true, 0
	}
	if g.Gap > 0 {
		left = min(left, driedUp*g.Gap-g.Idle)
	}
	return left <= 0, max(left, 0)
}
