package restore

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/objects"
	"github.com/chronik-io/chronik/internal/objects/dirstore"
	"github.com/chronik-io/chronik/internal/vfs"
)

// Open opens the object store of a URL. An error says what to do.
func Open(fsys vfs.FS, text string) (objects.Store, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" || u.Host != "" || !strings.HasPrefix(u.Path, "/") || u.RawQuery != "" {
		return nil, exit.With(exit.Usage, fmt.Errorf("URL %s is not that of an object store: write file:/// and the absolute path "+
			"of a directory", text))
	}
	s, err := dirstore.Open(fsys, u.Path)
	if err != nil {
		return nil, exit.With(exit.Data, err)
	}
	return s, nil
}
