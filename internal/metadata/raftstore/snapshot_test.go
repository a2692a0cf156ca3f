package raftstore

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// A member that cannot take a snapshot is named in few lines, and when it has one.
func TestSnapshotsThatAreNotSentAreSaid(t *testing.T) {
	core, said := observer.New(zap.InfoLevel)
	life, end := context.WithCancel(t.Context())
	s := &Store{opts: Options{Log: zap.New(core)}, life: life}
	for range 40 {
		s.saySent(0x12, errors.New("no connection"))
	}
	s.saySent(0x1, nil) // another member
	lines := said.FilterField(zap.String("member", "12")).All()
	said.TakeAll()
	if len(lines) != 7 || lines[6].ContextMap()["failures"] != int64(33) {
		t.Errorf("said: %+v", lines)
	}
	s.saySent(0x12, nil)
	s.saySent(0x12, nil)
	if n := said.Len(); n != 1 {
		t.Errorf("%d lines of a success", n)
	}
	end()
	s.saySent(0x13, context.Canceled)
	if n := said.Len(); n != 1 {
		t.Error("the end of the store is said")
	}
}
