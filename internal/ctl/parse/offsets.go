package parse

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// TopicOffset is one line of a file of offsets.
type TopicOffset struct {
	Topic     string
	Partition int32
	Offset    int64
}

// maxOffsets bounds a file of offsets, in lines.
const maxOffsets = 1_000_000

// Offsets reads lines TOPIC,PARTITION,OFFSET, as Kafka's own tool writes them.
// Blank lines and those that begin with # do not count; each partition may stand
// there once.
func Offsets(r io.Reader) ([]TopicOffset, error) {
	type place struct {
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
		if first, twice := seen[place{o.Topic, o.Partition}]; twice {
			return nil, fmt.Errorf("line %d: %s partition %d stands in line %d already", n, o.Topic, o.Partition, first)
		}
		if len(all) == maxOffsets {
			return nil, fmt.Errorf("line %d: more than %d offsets", n, maxOffsets)
		}
		seen[place{o.Topic, o.Partition}] = n
		all = append(all, o)
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("after %d offsets: %w", len(all), err)
	}
	return all, nil
}

func offsetLine(line string) (TopicOffset, error) {
	fields := strings.Split(line, ",")
	if len(fields) == 4 && fields[0] != "" {
		fields = fields[1:] // GROUP first: the tool's file for several groups
	}
	bad := fmt.Errorf("%q is not TOPIC,PARTITION,OFFSET", line)
	if len(fields) != 3 {
		return TopicOffset{}, bad
	}
	for i, f := range fields {
		fields[i] = strings.Trim(strings.TrimSpace(f), `"`)
	}
	p, err1 := strconv.ParseInt(fields[1], 10, 32)
	o, err2 := strconv.ParseInt(fields[2], 10, 64)
	if fields[0] == "" || err1 != nil || err2 != nil || p < 0 || o < 0 {
		return TopicOffset{}, bad
	}
	return TopicOffset{fields[0], int32(p), o}, nil
}
