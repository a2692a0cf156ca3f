package audit

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/vfs"
)

// A day under a flood from ten addresses, at a scale of 1 to 1024 in time and in the size of files:
// each makes as many refusals as it may have causes, and logs in and out all the time. Only
// refusals are overwritten.
func TestAFloodOverwritesNoChangeAndNoLogin(t *testing.T) {
	const scale = 1024
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		open := func(name string) *File {
			f, err := OpenFile(vfs.OS(), filepath.Join(dir, name))
			must.OK(t, err)
			f.max = fileBytes / scale
			return f
		}
		l := Open(Options{Mode: Refusals, Sink: Sinks{open("refusals"), open("logins"), open("changes")}})
		l.Record(refused("User:first", "10.0.1.1", "a"))
		l.Record(Event{Kind: Login, Client: Client{Who: "User:first", Host: "10.0.1.1"}})
		l.Record(Event{Kind: Change, Client: Client{Who: "User:first", Host: "10.0.1.1"}, Resource: "User:eve"})
		for second := range int(24 * time.Hour / time.Second / scale) {
			for host := range 10 {
				who := Client{Who: "User:x", Host: fmt.Sprintf("10.0.0.%d", host)}
				l.Record(Event{Kind: Login, Client: who})
				l.Record(Event{Kind: Logout, Client: who})
				for i := range maxOfHost / 10 {
					l.Record(refused(who.Who, who.Host, fmt.Sprintf("%0200d", second%10*maxOfHost+i)))
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if err := l.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	for name, kept := range map[string]bool{"refusals": false, "logins": true, "changes": true} {
		var all strings.Builder
		files, err := filepath.Glob(filepath.Join(dir, name+"*"))
		for _, path := range files {
			text, err := os.ReadFile(path)
			must.OK(t, err)
			all.Write(text)
		}
		if err != nil || strings.Contains(all.String(), "User:first") != kept || all.Len() > fileCount*fileBytes/scale {
			t.Errorf("%s: %d bytes in %d files, the first line is kept: %v, %v", name, all.Len(), len(files), !kept, err)
		}
		t.Logf("%s: %d bytes", name, all.Len())
	}
}
