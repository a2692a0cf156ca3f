package logs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/chronik-io/chronik/internal/cli"
	"github.com/chronik-io/chronik/internal/inspect"
	"github.com/chronik-io/chronik/internal/storage"
	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/vfs"
)

// parts are the possible arguments of dump.
var parts = []string{"checkpoint", "journal", "segments"}

func dump(a *app.App) *cobra.Command {
	var w dirFlags
	o := inspect.DumpOptions{}
	var produce, repair bool
	c := &cobra.Command{
		Use: "dump [checkpoint|journal|segments...]", Short: "Print what a directory holds: checkpoint, journal frames, batches, records",
		Args: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if !slices.Contains(parts, arg) {
					return app.Usage("%s accepts %s, not %q", cmd.CommandPath(), strings.Join(parts, ", "), arg)
				}
			}
			return nil
		},
		ValidArgs: parts,
		Long: "dump prints the contents of the files, one item per line: the checkpoint's entry of each partition, each frame\n" +
			"of the journal, each batch of each segment. With --records it also prints each record. For a frame it prints its\n" +
			"LSN, partition, offsets, bytes and the highest durable LSN that it records. Recovery does not need all of\n" +
			"them: it skips the frames whose records are in segments according to the checkpoint. -o json prints one object per line. dump changes nothing.\n" +
			"It also works while a broker runs; the broker's last writes may then look damaged. With --for-produce\n" +
			"it prints records that produce can write to a broker again, and with --for-repair, batches that repair --restore\n" +
			"writes to another replica. dump reports the parts that it cannot read, and then exits with 4.",
		Example: "  chronikctl log dump journal --dir /var/lib/chronik\n" +
			"  chronikctl log dump segments --dir /var/lib/chronik --topic orders --partition 3 --from 1200 --to 1210 --records\n" +
			"  chronikctl log dump --dir /var/lib/chronik --topic orders --for-produce | chronikctl produce orders --input json --same-partition\n" +
			"  chronikctl log dump --dir /var/lib/chronik --topic orders --partition 3 --from 1200 --to 1210 --for-repair > orders-3.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if produce && (o.Topic == "" || len(args) > 0 || o.Records || !a.Format().ForPeople()) {
				return app.Usage("--for-produce prints only the records of one --topic, wherever they are: give --topic, and remove "+
					"%s, --records and -o", strings.Join(parts, ", "))
			}
			if others := len(args) > 0 || o.Records || o.Replaced || produce || !a.Format().ForPeople(); repair &&
				(o.Topic == "" || o.Partition < 0 || others) {
				return app.Usage("--for-repair prints only the batches of one partition, wherever they are: give --topic and --partition, "+
					"and remove %s, --records, --replaced, --for-produce and -o", strings.Join(parts, ", "))
			}
			at, err := w.options(cmd)
			if err != nil {
				return err
			}
			if produce {
				warn(a, at)
				return forProduce(cmd.Context(), a, at, o)
			}
			if repair {
				warn(a, at)
				return forRepair(cmd.Context(), a, at, o)
			}
			has := func(part string) bool { return len(args) == 0 || slices.Contains(args, part) }
			o.Checkpoint, o.Journal, o.Segments = has("checkpoint"), has("journal"), has("segments")
			warn(a, at)
			return stream(cmd, a, at, o)
		},
	}
	w.flags(c)
	f := c.Flags()
	f.StringVar(&o.Topic, "topic", "", "only this topic")
	cli.AtLeast(int32(0)).Or(-1, "all").Flag(f, &o.Partition, "partition", "", -1, "only this partition")
	cli.AtLeast(int64(0)).Flag(f, &o.From, "from", "", 0, "only items with records at or after this offset")
	f.Int64Var(&o.To, "to", 0, "only items that start before this offset; 0: no bound")
	f.BoolVar(&o.Records, "records", false, "print each record")
	f.BoolVar(&o.Replaced, "replaced", false, "only the segments of damaged logs that were replaced by copies; "+
		"with --for-produce, the records there that the log lacks")
	f.BoolVar(&produce, "for-produce", false, "print only the records of --topic, as produce --input json reads them")
	f.BoolVar(&repair, "for-repair", false, "print only the batches of --partition of --topic, also of replaced logs, as repair --restore reads them")
	return c
}

// warn prints a warning if a broker is using a directory.
func warn(a *app.App, at inspect.Options) {
	for _, p := range at.Locations {
		l, err := vfs.ReadOnly(at.FS).Lock(p.Path+"/"+storage.LockFile, "")
		if errors.Is(err, vfs.ErrLocked) {
			a.Note("warning: %s is in use: %v; data that changes meanwhile may look damaged", p.Path, err)
		}
		if err == nil {
			_ = l.Close() // only checked, not used
		}
	}
}

// stream prints a dump item by item: it may not fit into memory.
func stream(cmd *cobra.Command, a *app.App, at inspect.Options, o inspect.DumpOptions) error {
	out := bufio.NewWriterSize(a.Out, 64<<10)
	encode := json.NewEncoder(out)
	encode.SetEscapeHTML(false)
	err := inspect.Dump(cmd.Context(), at, o, func(it *inspect.Item) error {
		if !a.Format().ForPeople() {
			return encode.Encode(it)
		}
		_, err := fmt.Fprintln(out, line(it))
		return err
	})
	if e := out.Flush(); err == nil {
		err = e
	}
	if err != nil {
		return explained("dump", err)
	}
	return nil
}

// line formats an item for people.
func line(it *inspect.Item) string {
	log := ""
	if it.Partition != nil {
		name := it.Topic
		if name == "" {
			name = "topic " + it.TopicID + " "
		}
		log = fmt.Sprintf(" %s-%d", name, *it.Partition)
		if it.Offset != nil && it.Next != nil {
			log += fmt.Sprintf(" [%d, %d)", *it.Offset, *it.Next)
		}
	}
	at := fmt.Sprintf(" at %s:%d", it.File, it.Position)
	switch {
	case it.What == "damage":
		return "DAMAGE" + log + at + ": " + it.Damage
	case it.Checkpoint != nil:
		x := it.Checkpoint
		return fmt.Sprintf("checkpoint %d directory %s journal %s redo file %d LSN %d durable LSN %d logs %d boot %s clean %v at %s", x.Sequence,
			x.Directory, x.Journal,
			x.RedoFile, x.RedoLSN, x.DurableLSN, x.Logs, x.Boot, x.Clean, it.File)
	case it.Log != nil:
		x := it.Log
		var segments []string
		for _, s := range x.Segments {
			segments = append(segments, fmt.Sprintf("%d:%d", s.Base, s.Bytes))
		}
		text := fmt.Sprintf("log%s LSN %d segments %s", log, x.LSN, strings.Join(segments, ","))
		if x.High >= 0 {
			text += fmt.Sprintf(" high watermark %d epoch %d", x.High, x.Epoch)
		}
		if len(x.Flags) > 0 {
			text += " " + strings.Join(x.Flags, ",") + " " + x.Reason
		}
		return text
	case it.Journal != nil:
		x := it.Journal
		text := fmt.Sprintf("journal file %d first LSN %d header %s bytes %d", x.Sequence, x.FirstLSN, x.Header, it.Bytes)
		if !x.Needed {
			text += " not needed"
		}
		return text + " at " + it.File + suffix(it.Damage)
	case it.Frame != nil:
		x := it.Frame
		text := fmt.Sprintf("frame LSN %d%s %s records %d bytes %d durable %d", x.LSN, log, x.Type, x.Records, it.Bytes, x.Durable)
		if x.Type == "skip" {
			text = fmt.Sprintf("frame LSN %d skip to %d durable %d", x.LSN, x.To, x.Durable)
		}
		if x.Epoch != nil {
			text += fmt.Sprintf(" epoch %d", *x.Epoch)
		}
		if x.Carried {
			text += " carried"
		}
		if !x.Counts {
			text += " in segments"
		}
		return text + at
	case it.Batch != nil:
		x := it.Batch
		text := fmt.Sprintf("batch%s records %d bytes %d epoch %d time %d codec %s", log, x.Records, it.Bytes, x.Epoch, x.MaxTimestamp,
			x.Codec)
		if x.Producer >= 0 {
			text += fmt.Sprintf(" producer %d epoch %d sequence %d", x.Producer, x.ProducerEp, x.Sequence)
		}
		return text + at
	case it.Aborted != nil:
		return fmt.Sprintf("aborted%s producer %d last stable offset %d", log, it.Aborted.Producer, it.Aborted.Stable) + at
	case it.Record != nil:
		return fmt.Sprintf("record %s-%d %d time %d ", it.Topic, *it.Partition, *it.Offset, it.Record.Timestamp) + content(it.Record)
	}
	return it.What + log + fmt.Sprintf(" bytes %d at %s", it.Bytes, it.File)
}

// content formats the key and the value, or what they mean.
func content(r *inspect.ItemRecord) string {
	if r.Decoded != nil {
		if text, err := json.Marshal(r.Decoded); err == nil {
			return string(text)
		}
	}
	return "key " + shown(r.Key) + " value " + shown(r.Value)
}

func shown(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func suffix(damage string) string {
	if damage == "" {
		return ""
	}
	return ": " + damage
}
