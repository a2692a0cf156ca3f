// Package window is the state machine of one share partition: the view that a share group has of a
// partition (KIP-932). It is pure: no I/O, no goroutines, no locks and no clock. It does not know
// requests, sessions, or where the state is stored.
//
// The window holds a state for each offset from the share-partition start offset (SPSO) to the
// share-partition end offset (SPEO), which is the next offset that no member has acquired yet. An
// offset below SPSO is finished, and one at or above SPEO has no state.
//
//	              Take                      accept                      SPSO reaches it
//	Available     Take: Acquired            found to be no record: Archived
//	Acquired      accept: Acknowledged      gap: Archived
//	              release: Delayed, or Available without a retry delay
//	              Expire, Release: Available
//	              reject, or a delivery that ends at the limit: Archived, with dead letters Archiving
//	Delayed       Expire: Available
//	Archiving     Copied: Archived
//	Acknowledged, Archived      when SPSO reaches them, they are gone
//
// Offsets with equal values are one run. Runs are leaves of a tree whose nodes have sums, so no
// operation works in proportion to the window: it costs O(log n) for each run that it changes.
//
// What has to be stored leaves in writes. One write is under way at a time, and it is repeated with
// the same content until Written or Refused is called. A transition in memory is never undone:
// after Refused the window serves nothing, and the caller loads the stored state again.
//
// The caller serialises all calls and passes the time, as a duration since an origin of the caller.
// docs/share-groups.md has the design.
package window
