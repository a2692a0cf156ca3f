package move

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/text"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
)

// Rates are dynamic configs of brokers that bound copies while a command moves. At the end, those
// that an operator had set count again. So only brokers whose values Note has read are changed: the
// former values of the others would be lost. Its fields must not change after Set.
type Rates struct {
	Client *kgo.Client
	Names  []string
	Value  string // of all names, while the command moves
	What   string // for errors: what the command does with them
	// former are the values before, by broker and name, without those that are not set. It has each
	// broker that Note has read.
	former map[int32]map[string]string
}

// Note remembers the values of brokers that run, before Set changes these. A value that equals
// Value is taken for that of a run that was interrupted, and each one if other commands move. It
// fails only if no broker has answered yet.
func (r *Rates) Note(ctx context.Context, ids []int32, others bool) error {
	now, err := r.read(ctx, ids)
	if r.former == nil {
		r.former = map[int32]map[string]string{}
	}
	for id, set := range now {
		if r.former[id] == nil {
			maps.DeleteFunc(set, func(_, v string) bool { return others || v == r.Value })
			r.former[id] = set
		}
	}
	if len(r.former) > 0 {
		return nil
	}
	return err
}

// Noted reports whether Note has read the rates of a broker.
func (r *Rates) Noted(id int32) bool { return r.former[id] != nil }

// noted returns those of some brokers that Note has read.
func (r *Rates) noted(ids []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return !r.Noted(id) })
}

// Set sets the rates of those of the brokers ids that Note has read. It asks a broker that runs, as
// the others may be down.
func (r *Rates) Set(ctx context.Context, runs int32, ids []int32) error {
	return AlterBrokers(ctx, r.Client, runs, r.What, r.noted(ids), r.changes(func(string) string { return r.Value })...)
}

// End restores the values that Note remembered, and removes those that Set added, of those of the
// brokers ids that Note has read. Of those that run and answer, it leaves what another command has
// set meanwhile, with a note.
func (r *Rates) End(ctx context.Context, runs int32, ids, running []int32, note func(format string, args ...any)) error {
	now, _ := r.read(ctx, r.noted(running)) // one that has died has the rates of Set, as a fenced one
	notes := map[string][]int32{}
	for _, id := range r.noted(ids) {
		former, set := r.former[id], now[id]
		list := r.changes(func(name string) string { return former[name] })
		list = slices.DeleteFunc(list, func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) (others bool) {
			about := ""
			if v := former[c.Name]; v != "" {
				about = fmt.Sprintf("%s is %s again, as before", c.Name, v)
			}
			if v := set[c.Name]; v != "" && v != r.Value && v != former[c.Name] {
				others, about = true, fmt.Sprintf("%s is %s, as another command has set it", c.Name, v)
			}
			if about != "" {
				notes[about] = append(notes[about], id)
			}
			return others
		})
		if len(list) == 0 {
			continue
		}
		if err := AlterBrokers(ctx, r.Client, runs, r.What, []int32{id}, list...); err != nil {
			return err
		}
	}
	for _, about := range slices.Sorted(maps.Keys(notes)) {
		note("%s (broker %s)", about, text.Numbers(notes[about]))
	}
	return nil
}

// Remove removes the rates that an interrupted run of the same command has left on brokers that
// run: those that equal Value. It returns the brokers that answer, and fails if none does.
func (r *Rates) Remove(ctx context.Context, runs int32, running []int32) (read []int32, err error) {
	now, err := r.read(ctx, running)
	if err != nil && len(now) == 0 {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(now)) {
		list := slices.DeleteFunc(r.changes(func(string) string { return "" }),
			func(c kmsg.IncrementalAlterConfigsRequestResourceConfig) bool { return now[id][c.Name] != r.Value })
		if len(list) > 0 {
			if err := AlterBrokers(ctx, r.Client, runs, r.What, []int32{id}, list...); err != nil {
				return nil, err
			}
		}
		read = append(read, id)
	}
	return read, nil
}

// Former returns the commands that restore what Note remembered, empty if it was nothing.
func (r *Rates) Former() (commands []string) {
	for _, id := range slices.Sorted(maps.Keys(r.former)) {
		var pairs []string
		for _, name := range r.Names {
			if v := r.former[id][name]; v != "" {
				pairs = append(pairs, name+"="+v)
			}
		}
		if len(pairs) > 0 {
			commands = append(commands, fmt.Sprintf("chronikctl config set broker %d %s", id, strings.Join(pairs, " ")))
		}
	}
	return commands
}

// changes returns changes of all names to values, of which an empty one removes the config.
func (r *Rates) changes(value func(name string) string) (list []kmsg.IncrementalAlterConfigsRequestResourceConfig) {
	for _, name := range r.Names {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = name, kmsg.IncrementalAlterConfigOpDelete
		if v := value(name); v != "" {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpSet, &v
		}
		list = append(list, c)
	}
	return list
}

// read returns the rates of the dynamic configs of brokers that run. Each broker answers for
// itself. If one does not, read returns the rates of the others, too.
func (r *Rates) read(ctx context.Context, ids []int32) (map[int32]map[string]string, error) {
	now := map[int32]map[string]string{}
	if len(ids) == 0 {
		return now, nil
	}
	what := "read " + strings.Join(r.Names, " and ")
	all, err := kadm.NewClient(r.Client).DescribeBrokerConfigs(ctx, ids...)
	if err != nil {
		err = app.Refused(what, app.BrokerError(err), "")
	}
	for _, x := range all {
		id, notID := strconv.ParseInt(x.Name, 10, 32)
		if x.Err != nil || notID != nil {
			err = app.Refused(what, cmp.Or(x.Err, notID), x.ErrMessage)
			continue
		}
		set := map[string]string{}
		for _, kv := range x.Configs {
			if slices.Contains(r.Names, kv.Key) && kv.Source == kmsg.ConfigSourceDynamicBrokerConfig && kv.MaybeValue() != "" {
				set[kv.Key] = kv.MaybeValue()
			}
		}
		now[int32(id)] = set
	}
	return now, err
}
