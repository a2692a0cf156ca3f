package view

// Brokers is the response of GET /v1/brokers.
type Brokers struct {
	Broker     int32    `json:"broker"`     // the one that answers
	Leaderless int      `json:"leaderless"` // partitions of the whole cluster that have no leader
	Moving     int      `json:"moving"`     // partitions of the whole cluster that are being reassigned
	List       []Broker `json:"brokers"`
}

// Broker is a registered broker, as the metadata of the one that answers describe it.
type Broker struct {
	ID      int32  `json:"id"`
	Address string `json:"address"` // of its first listener
	State   string `json:"state"`   // one of BrokerStates
	// VotesOnly: it has no log directories, so it has no replicas.
	VotesOnly bool `json:"votesOnly"`
	// Leads and Replicas are numbers of partitions.
	Leads    int `json:"leads"`
	Replicas int `json:"replicas"`
	// OutOfSync are the partitions with a leader whose replica on this broker is not in the ISR,
	// without those to which a reassignment adds it. BelowMin are those of them with fewer replicas
	// in sync than min.insync.replicas; AtMin counts those that have as many.
	OutOfSync Partitions `json:"outOfSync"`
	BelowMin  Partitions `json:"belowMinIsr"`
	AtMin     int        `json:"atMinIsr"`
	// UnderReplicated counts the partitions that it leads and that have such a replica, and
	// UnderMinISR those with fewer replicas in sync than min.insync.replicas.
	UnderReplicated int `json:"underReplicated"`
	UnderMinISR     int `json:"underMinIsr"`
	// FailedDirs, HungDirs and LowDirs are its log directories that take no records, by the reason.
	FailedDirs int `json:"failedDirs"`
	HungDirs   int `json:"hungDirs"`
	LowDirs    int `json:"lowDirs"`
	// Full are the partitions that it leads although its log directory takes no records: no other
	// replica in sync can.
	Full Partitions `json:"full"`
	// Damaged are the partitions whose log on this broker is damaged or lost. SoleDamaged are those
	// of them that have no other replica, and LastDamaged the others that it leads: no other
	// replica that is whole can. Some records of LastDamaged can be read, of SoleDamaged perhaps
	// none.
	Damaged     Partitions `json:"damaged"`
	LastDamaged Partitions `json:"lastDamaged"`
	SoleDamaged Partitions `json:"soleDamaged"`
	// Awaits are the leaders of the partitions in OutOfSync if the logs of all of them are damaged
	// there, so that this broker copies nothing before these are repaired. Otherwise, and unless it
	// is active, Awaits is empty.
	Awaits []int32 `json:"-"`
	// Lag is what it lacks of the partitions that the answering broker leads. Follows reports
	// whether it has replicas of those.
	Lag     Lag  `json:"lag"`
	Follows bool `json:"-"`
}

// BrokerStates are the states of a broker.
func BrokerStates() []string { return []string{"fenced", "starting", "active", "draining", "drained"} }

// Lag is by how much a follower is behind.
type Lag struct {
	Records int64 `json:"records"` // of all partitions together
	Ms      int64 `json:"ms"`      // for how long it has not been caught up, of the partition where that is longest
}

// Rights is the response of GET /v1/rights: the configuration by which requests need rights. It is
// that of one broker; rules are in the metadata.
type Rights struct {
	Authorization  string   `json:"authorization"`  // "acl" or "none"
	SuperUsers     []string `json:"superUsers"`     // principals
	AllowEveryone  bool     `json:"allowEveryone"`  // on resources without a rule
	InternalTopics []string `json:"internalTopics"` // which only super users may change
}
