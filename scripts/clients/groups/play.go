package main

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
)

// play is the life of the group.
func (s *scenario) play(ctx context.Context) error {
	if err := s.create(ctx, topic, 6); err != nil {
		return err
	}
	s.writer.write(topic)
	for _, act := range []func(context.Context) error{s.come, s.die, s.brokerDies, s.grow, s.leave, s.rest} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// create creates a topic.
func (s *scenario) create(ctx context.Context, name string, partitions int32) error {
	if _, err := s.adm.CreateTopic(ctx, partitions, -1, nil, name); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	s.more(name, 0, partitions)
	return nil
}

func (s *scenario) more(name string, from, to int32) {
	for p := from; p < to; p++ {
		s.all = append(s.all, place{name, p})
	}
}

// come starts one member, then three.
func (s *scenario) come(ctx context.Context) error {
	if _, err := s.join(1, "m1"); err != nil {
		return err
	}
	if err := s.shared(ctx); err != nil {
		return err
	}
	for i, name := range []string{"m2", "m3"} {
		if _, err := s.join(i+2, name); err != nil {
			return err
		}
	}
	return s.shared(ctx)
}

// die kills a member, which cannot leave the group. If it has an instance id, another member with
// that id gets its partitions, and the others notice nothing. (With KIP-848 an instance id is free
// only when its member has left, or its session has timed out.)
func (s *scenario) die(ctx context.Context) error {
	victim := s.members[1]
	had, _ := s.world.owned(victim.name)
	_, one := s.world.owned("m1")
	_, three := s.world.owned("m3")
	if s.static && s.protocol == "consumer" {
		if err := victim.stop(ctx); err != nil {
			return err
		}
	}
	victim.kill()
	s.gone(victim)
	s.step("%s is dead", victim.name)
	if !s.static {
		return s.shared(ctx)
	}
	if _, err := s.join(2, "m2b"); err != nil {
		return err
	}
	if err := s.shared(ctx); err != nil {
		return err
	}
	has, _ := s.world.owned("m2b")
	_, oneNow := s.world.owned("m1")
	_, threeNow := s.world.owned("m3")
	if has != had || one != oneNow || three != threeNow {
		return fmt.Errorf("m2 had %s; m2b, which has its instance id, has %s; the others' assignments changed %d and %d times",
			had, has, oneNow-one, threeNow-three)
	}
	return nil
}

// brokerDies kills the broker while members read.
func (s *scenario) brokerDies(ctx context.Context) error {
	if err := s.restartBroker(ctx, true); err != nil {
		return err
	}
	s.step("the broker was killed, and is back")
	return s.shared(ctx)
}

// grow adds partitions to the topic, or topics to the pattern.
func (s *scenario) grow(ctx context.Context) error {
	answers, err := s.adm.UpdatePartitions(ctx, 8, topic)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("more partitions: %w", err)
	}
	s.more(topic, 6, 8)
	if s.regex {
		if err := s.create(ctx, another, 2); err != nil {
			return err
		}
		s.writer.write(another)
	}
	return s.shared(ctx)
}

// leave stops one member and starts others; the broker is killed meanwhile.
func (s *scenario) leave(ctx context.Context) error {
	first := s.members[0]
	if err := s.end(ctx, first); err != nil {
		return err
	}
	s.step("%s left", first.name)
	if err := s.shared(ctx); err != nil {
		return err
	}
	for i, name := range []string{"m4", "m5"} {
		if _, err := s.join(i+4, name); err != nil {
			return err
		}
	}
	// One node is killed each time. A cluster is also stopped: its leaderships then move before.
	if err := s.restartBroker(ctx, s.nodes == 1); err != nil {
		return err
	}
	return s.shared(ctx)
}

// rest stops all members and kills the broker. One member then continues at the committed offsets,
// with no record before them and none missing.
func (s *scenario) rest(ctx context.Context) error {
	if err := s.end(ctx, s.members...); err != nil {
		return err
	}
	before, err := s.empty(ctx)
	if err != nil {
		return err
	}
	if err := s.restartBroker(ctx, true); err != nil {
		return err
	}
	var after map[place]int64
	err = await(ctx, "the broker knows what was committed", func() (err error) {
		after, err = s.commits(ctx)
		return err
	})
	if err != nil {
		return err
	}
	for _, p := range s.all {
		if after[p] != before[p] {
			return fmt.Errorf("%d of %s was committed; after the broker was killed it is %d", before[p], p, after[p])
		}
	}
	s.world.commits(after)
	s.world.resume()
	s.step("all members have left; after the kill of the broker the commits are unchanged")
	m, err := s.join(6, "m6")
	if err != nil {
		return err
	}
	if err := s.shared(ctx); err != nil {
		return err
	}
	s.writer.stop()
	if err := s.shared(ctx); err != nil {
		return err
	}
	return s.end(ctx, m)
}

// end stops members. A member with an instance id stays in the group until an administrator removes
// it.
func (s *scenario) end(ctx context.Context, list ...*process) error {
	list = append([]*process(nil), list...)
	for _, m := range list {
		if err := m.stop(ctx); err != nil {
			return err
		}
	}
	s.gone(list...)
	if !s.static {
		return nil
	}
	return s.remove(ctx, list)
}

// empty waits until the group has no members, and returns its commits.
func (s *scenario) empty(ctx context.Context) (map[place]int64, error) {
	err := await(ctx, "the group is empty", func() error {
		answer, err := s.adm.ListGroups(ctx)
		if err != nil {
			return err
		}
		if state := answer[group].State; state != "Empty" {
			return fmt.Errorf("the group is %s", state)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.commits(ctx)
}

// remove removes stopped members from the group by their instance ids.
func (s *scenario) remove(ctx context.Context, list []*process) error {
	if s.protocol == "consumer" {
		return s.removeConsumers(ctx, list)
	}
	answer, err := s.adm.DescribeGroups(ctx, group)
	if err != nil {
		return err
	}
	leave := kadm.LeaveGroup(group)
	for _, m := range answer[group].Members {
		if m.InstanceID != nil && named(list, m.ClientID) {
			leave = leave.InstanceIDs(*m.InstanceID)
		}
	}
	left, err := s.adm.LeaveGroup(ctx, leave)
	if err == nil && !left.Ok() {
		err = left.Error()
	}
	if err != nil {
		return fmt.Errorf("take out static members: %w", err)
	}
	return nil
}

func named(list []*process, clientID string) bool {
	for _, p := range list {
		if p.name == clientID {
			return true
		}
	}
	return false
}
