package controller

// Every broker holds all metadata in memory and in its snapshots. What clients may add to them for
// names of their own choice is bounded by one rule: users, access rules, and entities with quotas.
const (
	// MaxEntries is how many of each a cluster may have. Requests that add some at the same time
	// may exceed it by what they add. Entries that exist can always be changed and removed.
	MaxEntries = 100_000
	// MaxAtOnce is how many of each one request may add, change or remove.
	MaxAtOnce = 1000
)

// checkEntries refuses a change after which there are too many entries of a kind, unless it adds
// none. remedy tells the client what to do instead.
func checkEntries(before, after int, kind, remedy string) error {
	if after > MaxEntries && after > before {
		return refuse(PolicyViolation, "The cluster has %d %s, %d are allowed. %s", before, kind, MaxEntries, remedy)
	}
	return nil
}

// checkAtOnce refuses a request with too many parts. verb names the action in the error.
func checkAtOnce(n int, verb, kind string) error {
	if n > MaxAtOnce {
		return refuse(InvalidRequest, "The request %s %d %s, %d are allowed.", verb, n, kind, MaxAtOnce)
	}
	return nil
}
