package service

import (
	"fmt"

	"github.com/chronik-io/chronik/internal/view"
)

// Waits appends the steps at which an event about a key waits to list: those of the oldest append
// of the shard, or the shard itself. what names the key in words. It acquires the lock of the
// shard's partition.
func (s *Service) Waits(key, what string, list []view.WaitStep) []view.WaitStep {
	t := s.image.Load().Topic(s.def.Topic)
	if t == nil {
		return append(list, view.WaitStep{Step: view.StepMetadata, For: "the creation of " + s.def.Topic + ", for " + what})
	}
	i, _ := s.Partition(key)
	n := len(list)
	step := view.WaitStep{Step: view.StepCoordinator, Partition: fmt.Sprintf("%s-%d", s.def.Topic, i)}
	part, err := s.opt.Replicas.Partition(t.ID, i)
	if err == nil {
		list = part.Waits(list)
	}
	for j := n; j < len(list); j++ {
		list[j].For += ", for " + what
	}
	if len(list) > n {
		return list
	}
	stats, _ := s.rt.StatsOf(i)
	step.For = fmt.Sprintf("the coordinator of %s, which is %s and has %d requests", what, stats.State, stats.Waiting)
	return append(list, step)
}
