package records

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/chronik-io/chronik/internal/tools/ctl/app"
	"github.com/chronik-io/chronik/internal/tools/ctl/output"
)

// printer appends the printed form of a record to p.
type printer func(p []byte, r *kgo.Record) ([]byte, error)

func newPrinter(o *consumeOptions, f output.Format) (printer, error) {
	switch {
	case f == output.JSON:
		return printJSON, nil
	case f == output.YAML:
		return printYAML, nil
	case o.format == "":
		return o.plain, nil
	}
	format, err := kgo.NewRecordFormatter(zeros(o.format))
	if err != nil {
		return nil, app.Usage("--format %q: %w; chronikctl consume --help lists the placeholders", o.format, err)
	}
	return func(p []byte, r *kgo.Record) ([]byte, error) { return format.AppendRecord(p, r), nil }, nil
}

// zeros replaces \0, which the client library's formats lack, by \x00, so that a format supports
// the same escapes as the other flags.
func zeros(format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		switch rest := format[i:]; {
		case strings.HasPrefix(rest, `\0`):
			b.WriteString(`\x00`)
			i++
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(rest[:2])
			i++
		default:
			b.WriteByte(rest[0])
		}
	}
	return b.String()
}

// plain appends a line of text as the flags define it.
func (o *consumeOptions) plain(p []byte, r *kgo.Record) ([]byte, error) {
	switch {
	case o.several && o.offsets:
		p = fmt.Appendf(p, "%s:%d:%d\t", r.Topic, r.Partition, r.Offset)
	case o.several:
		p = fmt.Appendf(p, "%s\t", r.Topic)
	case o.offsets:
		p = fmt.Appendf(p, "%d:%d\t", r.Partition, r.Offset)
	}
	if o.headers {
		for _, h := range r.Headers {
			p = fmt.Appendf(p, "%s=%s\t", h.Key, h.Value)
		}
	}
	if o.separator != "" {
		p = append(append(p, r.Key...), o.separator...)
	}
	return append(append(p, r.Value...), '\n'), nil
}

// printJSON appends one line of JSON, so that a program can read record by record.
func printJSON(p []byte, r *kgo.Record) ([]byte, error) {
	line, err := output.EncodeRecord(r)
	return append(append(p, line...), '\n'), err
}

// printYAML appends one YAML document.
func printYAML(p []byte, r *kgo.Record) ([]byte, error) {
	w := appender(append(p, "---\n"...))
	err := output.Print(&w, output.YAML, output.FromKafka(r))
	return w, err
}

type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

// write prints one record.
func (r *reader) write(w *bufio.Writer, rec *kgo.Record) error {
	line, err := r.print(r.line[:0], rec)
	if err != nil {
		return err
	}
	r.line = line
	if _, err := w.Write(line); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}
