package view

// Brokers is the response of GET /v1/brokers.
type Brokers struct {
	Broker int32    `json:"broker"` // the one that answers
	List   []Broker `json:"brokers"`
}

// Broker is a registered broker, as the metadata of the one that answers describe it.
type Broker struct {
	ID        int32  `json:"id"`
	Address   string `json:"address"` // of its first listener
	State     string `json:"state"`   // fenced, starting, active, draining, drained
	Leads     int    `json:"leads"`   // partitions that it leads
	Replicas  int    `json:"replicas"`
	OutOfSync int    `json:"outOfSync"` // replicas that are not in the ISR, without those that are being added
}

// Rights is the response of GET /v1/rights: the configuration by which requests need rights. It is
// that of one broker; rules are in the metadata.
type Rights struct {
	Authorization  string   `json:"authorization"`  // "acl" or "none"
	SuperUsers     []string `json:"superUsers"`     // principals
	AllowEveryone  bool     `json:"allowEveryone"`  // on resources without a rule
	InternalTopics []string `json:"internalTopics"` // which only super users may change
}
