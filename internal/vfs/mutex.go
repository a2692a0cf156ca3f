package vfs

import "sync"

// Mutex is a mutex for sections that access the disk. The zero value is unlocked. Lock waits at a
// channel: in a simulation, time passes while a disk hangs and others wait for the section, which a
// sync.Mutex would prevent (see testing/synctest on durable blocking). It costs about twice as much
// as a sync.Mutex, which does not count next to a write.
type Mutex struct {
	once sync.Once
	held chan struct{} // capacity 1, full while the mutex is locked
}

func (m *Mutex) channel() chan struct{} {
	m.once.Do(func() { m.held = make(chan struct{}, 1) })
	return m.held
}

// Lock waits until it is unlocked, and locks it.
func (m *Mutex) Lock() { m.channel() <- struct{}{} }

// TryLock locks it unless it is locked, and reports whether it did.
func (m *Mutex) TryLock() bool {
	select {
	case m.channel() <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock unlocks it.
func (m *Mutex) Unlock() { <-m.held }
