package group

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
	"github.com/chronik-io/chronik/internal/tools/ctl/parse"
	"github.com/chronik-io/chronik/internal/view"
)

// errNoRecords: a broker ignores an operator's requests: it is of another kind, or of an older
// version.
var errNoRecords = errors.New("the broker does not show or change single records of share groups; upgrade it")

// at is a share partition as a command names it.
type at struct {
	group, topic string
	partition    int32
}

func (x at) String() string {
	return fmt.Sprintf("group %s: %s partition %d", x.group, x.topic, x.partition)
}

func readAt(group, partition string) (at, error) {
	topic, list, err := parse.TopicPartitions(partition)
	if err != nil || len(list) != 1 {
		return at{}, app.Usage("%q is no partition; write TOPIC:PARTITION", partition)
	}
	return at{group, topic, list[0]}, nil
}

// readRange parses an offset, or a range of offsets.
func readRange(s string) (first, last int64, err error) {
	a, b, isRange := strings.Cut(s, "-")
	if first, err = strconv.ParseInt(a, 10, 64); err == nil {
		if last = first; isRange {
			last, err = strconv.ParseInt(b, 10, 64)
		}
	}
	if err != nil || first < 0 || last < first {
		return 0, 0, app.Usage("%q is neither an offset nor a range of offsets; write 17 or 17-20", s)
	}
	return first, last, nil
}

func peek(a *app.App) *cobra.Command {
	ask := view.ShareAsk{}
	c := &cobra.Command{
		Use: "peek GROUP TOPIC:PARTITION", Short: "Show the records of a share group that are not finished",
		Args: app.Args(2, 2, "one group and one partition"), ValidArgsFunction: a.Groups(1),
		Long: "peek shows the records of a partition that a share group has not finished, from the oldest on. Members hold some of\n" +
			"them; others wait for another delivery or for a copy as dead letters, or no member has got them yet.\n" +
			"It delivers nothing. It needs the rights of a member, and shows the first 256 bytes of a key and of a value.",
		Example: "  chronikctl group peek workers jobs:0\n  chronikctl group peek workers jobs:0 --state acquired --limit 100",
		RunE: a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
			x, err := readAt(args[0], args[1])
			if err != nil {
				return err
			}
			return printRecords(ctx, a, cl, x, ask)
		}),
	}
	c.Flags().Int64Var(&ask.First, "from", 0, "the first offset to show")
	cli.AtLeast(1).Flag(c.Flags(), &ask.Limit, "limit", "", 20, "how many records to show")
	c.Flags().StringArrayVar(&ask.States, "state", nil, "show only records in this state: available, delayed, acquired, archiving; repeatable")
	return c
}

// printRecords shows records, with as many requests as that needs.
func printRecords(ctx context.Context, a *app.App, cl *kgo.Client, x at, ask view.ShareAsk) error {
	ask.Topic, ask.Partition = x.topic, x.partition
	most := ask.Limit
	all := view.ShareRecords{Records: []view.ShareRecord{}}
	for {
		ask.Limit = min(most-len(all.Records), view.MaxShareRecords)
		req := kmsg.NewPtrShareFetchRequest()
		req.GroupID = &x.group
		req.UnknownTags.Set(view.ShareTag, encoded(ask))
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return app.Refused("peek "+x.String(), app.BrokerError(err), "")
		}
		var some view.ShareRecords
		if err := answered(x, "peek", resp.ErrorCode, resp.ErrorMessage, &resp.UnknownTags, &some); err != nil {
			return err
		}
		some.Records = append(all.Records, some.Records...)
		if some.Note == "" {
			some.Note = all.Note
		}
		if all = some; all.Next < 0 || len(all.Records) >= most {
			break
		}
		ask.First = all.Next
	}
	t := &output.Table{Title: fmt.Sprintf("%s  start %d  end %d  high watermark %d", x, all.Start, all.End, all.HighWatermark),
		Empty:   "no records",
		Columns: []string{"OFFSET#", "STATE", "DELIVERIES#", "MEMBER", "LEFT", "+TIME", "KEY", "VALUE"}}
	for i := range all.Records {
		r := &all.Records[i]
		left, at := "", ""
		if r.LeftMs > 0 {
			left = (time.Duration(r.LeftMs) * time.Millisecond).Round(100 * time.Millisecond).String()
		}
		value := shownText(r.Value, r.ValueBytes)
		if r.Missing {
			value = "(no record)"
		} else if r.Timestamp > 0 {
			at = time.UnixMilli(r.Timestamp).UTC().Format(time.RFC3339)
		}
		t.Add(r.Offset, r.State, r.Deliveries, r.Member, left, at, shownText(r.Key, r.KeyBytes), value)
	}
	if err := a.Print(all, t); err != nil {
		return err
	}
	if all.Note != "" {
		a.Note("%s", all.Note)
	}
	if all.Next >= 0 && a.Format().ForPeople() {
		a.Note("there are more; --from %d continues", all.Next)
	}
	return nil
}

// shownText is the beginning of a key or of a value in a table.
func shownText(p []byte, size int) string {
	const most = 60
	s := strings.ToValidUTF8(string(p), "\uFFFD")
	if cut := []rune(s); len(cut) > most {
		return string(cut[:most]) + "…"
	}
	if size > len(p) {
		s += "…"
	}
	return s
}

func encoded(ask view.ShareAsk) []byte {
	body, _ := json.Marshal(ask) // texts and numbers
	return body
}

// answered decodes the answer to an operator's request.
func answered(x at, what string, code int16, message *string, tags *kmsg.Tags, answer any) error {
	if err := kerr.ErrorForCode(code); err != nil {
		if errors.Is(err, kerr.InvalidRequest) && message == nil {
			return fmt.Errorf("%s %s: %w", what, x, errNoRecords)
		}
		if text := app.OrEmpty(message); text != "" && !isRight(err) {
			return fmt.Errorf("%s %s: %w", what, x, &refused{kerr.TypedErrorForCode(code), text})
		}
		return app.Refused(what+" "+x.String(), err, app.OrEmpty(message))
	}
	err := errNoRecords
	tags.Each(func(tag uint32, p []byte) {
		if tag == view.ShareTag {
			err = json.Unmarshal(p, answer)
		}
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, x, err)
	}
	return nil
}

func isRight(err error) bool {
	return errors.Is(err, kerr.GroupAuthorizationFailed) || errors.Is(err, kerr.TopicAuthorizationFailed)
}

// refused is an error whose text, of the broker, has its cause and its remedy.
type refused struct {
	code *kerr.Error
	text string
}

func (e *refused) Error() string { return e.code.Message + ": " + e.text }

func (e *refused) Unwrap() error { return e.code }

const rangeDoc = "OFFSETS are an offset, or a range: 17, 17-20."

func release(a *app.App) *cobra.Command {
	return changeCommand(a, view.ReleaseRecords, &cobra.Command{
		Use: "release GROUP TOPIC:PARTITION OFFSETS...", Short: "Give records that members of a share group hold back for another delivery",
		Long: "release ends the deliveries of records that members hold, as if they had released them. Other members get the records\n" +
			"at once, or after the retry delay of the group; at the delivery limit no member does. A member that is at work on\n" +
			"such a record is not stopped, and can't acknowledge it any more. " + rangeDoc + " It needs the rights of a member.",
		Example: "  chronikctl group release workers jobs:0 21",
	}, "release", "released")
}

func reject(a *app.App) *cobra.Command {
	return changeCommand(a, view.RejectRecords, &cobra.Command{
		Use: "reject GROUP TOPIC:PARTITION OFFSETS...", Short: "Archive records of a share group, so that no member gets them again",
		Long: "reject archives records that members hold or that wait for another delivery, as if a member had rejected them. If the\n" +
			"group has a topic of dead letters, they are copied to it. Records that no member has got yet are left alone; group\n" +
			"reset moves a group without members past them. " + rangeDoc + " It needs the rights of a member. It asks;\n" +
			"--yes confirms, --dry-run only lists.",
		Example: "  chronikctl group reject workers jobs:0 17 --yes\n  chronikctl group reject workers jobs:0 17-20 --dry-run",
	}, "reject", "rejected")
}

// changeCommand completes a command that changes records.
func changeCommand(a *app.App, action string, c *cobra.Command, verb, done string) *cobra.Command {
	c.Args, c.ValidArgsFunction = app.Args(3, -1, "one group, one partition, and offsets"), a.Groups(1)
	var dryRun bool
	if action == view.RejectRecords {
		c.Flags().BoolVar(&dryRun, "dry-run", false, dryRunDoc)
	}
	c.RunE = a.Both(func(ctx context.Context, _ *kadm.Client, cl *kgo.Client, args []string) error {
		x, err := readAt(args[0], args[1])
		if err != nil {
			return err
		}
		asks := make([]view.ShareAsk, len(args[2:]))
		for i, s := range args[2:] {
			asks[i] = view.ShareAsk{Topic: x.topic, Partition: x.partition, Action: action}
			if asks[i].First, asks[i].Last, err = readRange(s); err != nil {
				return err
			}
		}
		var out app.Outcomes
		if dryRun {
			for _, ask := range asks {
				out.Done(rangeText(ask), "would be rejected if they are not finished by then")
			}
			return a.PrintOutcomes(&out)
		}
		if action == view.RejectRecords {
			if err := a.Confirm(fmt.Sprintf("reject records of group %s", x.group), "dead letters are all that is left of them",
				mapped(asks, func(q view.ShareAsk) string {
					return x.topic + ":" + strconv.Itoa(int(x.partition)) + " offsets " + rangeText(q)
				})); err != nil {
				return err
			}
		}
		for _, ask := range asks {
			var change view.ShareChange
			err := apply(ctx, cl, x, verb, ask, &change)
			switch {
			case err != nil:
				out.Failed(rangeText(ask), err)
			case change.Changed == 0:
				out.Failed(rangeText(ask), fmt.Errorf("%s %s: offsets %s: %s", verb, x, rangeText(ask), rest(&change, "nothing was "+done)))
			default:
				out.Done(rangeText(ask), "%s", rest(&change, fmt.Sprintf("%s: %d", done, change.Changed)))
			}
		}
		return a.PrintOutcomes(&out)
	})
	return c
}

func mapped[T, R any](list []T, f func(T) R) []R {
	all := make([]R, len(list))
	for i, x := range list {
		all[i] = f(x)
	}
	return all
}

func rangeText(ask view.ShareAsk) string {
	if ask.First == ask.Last {
		return strconv.FormatInt(ask.First, 10)
	}
	return fmt.Sprintf("%d-%d", ask.First, ask.Last)
}

// rest adds what has become of the other offsets.
func rest(c *view.ShareChange, s string) string {
	for _, x := range []struct {
		n    int64
		what string
	}{{c.Available, "held by no member"}, {c.Finished, "finished before"}, {c.Below, "below the start of the group"},
		{c.Beyond, "not yet delivered to any member"}} {
		if x.n > 0 {
			s += fmt.Sprintf(", %s: %d", x.what, x.n)
		}
	}
	return s
}

// apply sends a change, once, to the broker that has answered when the command connected: a
// repetition could end a later delivery.
func apply(ctx context.Context, cl *kgo.Client, x at, verb string, ask view.ShareAsk, change *view.ShareChange) error {
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.GroupID = &x.group
	req.UnknownTags.Set(view.ShareTag, encoded(ask))
	got, err := cl.SeedBrokers()[0].Request(ctx, req)
	if err != nil && !app.Unconnected(err) {
		return fmt.Errorf("%s %s: it is not known whether the change was made; check the records before you repeat it: %w", verb, x,
			app.BrokerError(err))
	}
	if err != nil {
		return app.Refused(verb+" "+x.String(), app.BrokerError(err), "")
	}
	resp := got.(*kmsg.ShareAcknowledgeResponse)
	return answered(x, verb, resp.ErrorCode, resp.ErrorMessage, &resp.UnknownTags, change)
}
