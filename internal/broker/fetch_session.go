package broker

// sessions are the incremental fetch sessions of this broker (KIP-227).
type sessions struct{ slots int }

func newSessions(slots int) *sessions { return &sessions{slots: slots} }
