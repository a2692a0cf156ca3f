package replica

import "github.com/chronik-io/chronik/internal/storage"

// Dirs are the log directories of this broker, in the order of the configuration.
// The slice must not be changed.
func (m *Manager) Dirs() []*storage.Dir { return m.opt.Storage.Dirs() }
