package parse

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
)

// TopicOffset is a line of a file of offsets.
type TopicOffset struct {
	Group     string `json:"group,omitempty"` // empty if the line has none
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// maxOffsets bounds the number of offsets in a file.
const maxOffsets = 1_000_000

// Offsets reads lines TOPIC,PARTITION,OFFSET, optionally with GROUP in front, as written by
// WriteOffsets and by Kafka's own tool, which may quote names. It ignores empty lines and those
// that start with #. A partition may occur once per group.
func Offsets(r io.Reader) ([]TopicOffset, error) {
	type place struct {
		group     string
		topic     string
		partition int32
	}
	seen := map[place]int{}
	var all []TopicOffset
	scan := bufio.NewScanner(r)
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		o, err := offsetLine(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if first, twice := seen[place{o.Group, o.Topic, o.Partition}]; twice {
			return nil, fmt.Errorf("line %d: %s partition %d is already in line %d", n, o.Topic, o.Partition, first)
		}
		if len(all) == maxOffsets {
			return nil, fmt.Errorf("line %d: more than %d offsets", n, maxOffsets)
		}
		seen[place{o.Group, o.Topic, o.Partition}] = n
		all = append(all, o)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("after %d offsets: %w", len(all), err)
	}
	return all, nil
}

func offsetLine(line string) (o TopicOffset, err error) {
	bad := fmt.Errorf("%q is neither TOPIC,PARTITION,OFFSET nor GROUP,TOPIC,PARTITION,OFFSET", line)
	all, ok := fields(line)
	if !ok || len(all) < 3 || len(all) > 4 {
		return o, bad
	}
	if len(all) == 4 {
		if o.Group, all = all[0], all[1:]; o.Group == "" {
			return o, bad
		}
	}
	p, err1 := strconv.ParseInt(all[1], 10, 32)
	at, err2 := strconv.ParseInt(all[2], 10, 64)
	if all[0] == "" || err1 != nil || err2 != nil || p < 0 || at < 0 {
		return o, bad
	}
	o.Topic, o.Partition, o.Offset = all[0], int32(p), at
	return o, nil
}

// fields splits a line of comma-separated fields (RFC 4180). It removes blanks around a field, but
// not within quotes.
func fields(line string) (all []string, ok bool) {
	for rest := line; ; {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if !strings.HasPrefix(rest, `"`) {
			field, after, more := strings.Cut(rest, ",")
			all = append(all, strings.TrimSpace(field))
			if !more {
				return all, true
			}
			rest = after
			continue
		}
		var field strings.Builder
		for rest = rest[1:]; ; {
			part, after, closed := strings.Cut(rest, `"`)
			if !closed {
				return nil, false
			}
			field.WriteString(part)
			if rest = after; !strings.HasPrefix(rest, `"`) {
				break
			}
			field.WriteByte('"') // a doubled quote
			rest = rest[1:]
		}
		all = append(all, field.String())
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		if rest == "" {
			return all, true
		}
		if rest[0] != ',' {
			return nil, false
		}
		rest = rest[1:]
	}
}

// WriteOffsets writes offsets such that Offsets reads them back.
func WriteOffsets(w io.Writer, list []TopicOffset) error {
	var b strings.Builder
	for _, o := range list {
		if o.Group != "" {
			b.WriteString(quoted(o.Group) + ",")
		}
		fmt.Fprintf(&b, "%s,%d,%d\n", quoted(o.Topic), o.Partition, o.Offset)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// quoted returns a name as a field, in quotes if necessary (RFC 4180).
func quoted(name string) string {
	if name != "" && name[0] != '#' && strings.TrimSpace(name) == name && !strings.ContainsAny(name, "\",") {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}
