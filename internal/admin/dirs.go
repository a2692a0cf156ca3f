package admin

import (
	"net/url"

	"github.com/chronik-io/chronik/internal/metadata"
)

// dirState is a log directory in GET /v1/dirs.
type dirState struct {
	Path             string `json:"path"`
	ID               string `json:"id"`
	Journal          string `json:"journal"`
	Error            string `json:"error"`
	Space            string `json:"space"`
	SpaceMessage     string `json:"spaceMessage"`
	FreeBytes        int64  `json:"freeBytes"`
	TotalBytes       int64  `json:"totalBytes"`
	MinFreeBytes     int64  `json:"minFreeBytes"`
	JournalFreeBytes int64  `json:"journalFreeBytes"`
	JournalBytes     int64  `json:"journalBytes"`
	JournalLimit     int64  `json:"journalLimitBytes"`
	DeferredBytes    int64  `json:"deferredBytes"`
	CachedBytes      int64  `json:"cachedBytes"`
	OpenSegmentFiles int    `json:"openSegmentFiles"`
	Logs             int    `json:"logs"`
	Offline          int    `json:"offline"`
}

// dirs serves GET /v1/dirs.
func dirs(v *View, q url.Values) (any, error) {
	if err := known(q); err != nil {
		return nil, err
	}
	list := []dirState{}
	for _, d := range v.Storage.Dirs() {
		s, x := d.LastSpace(), d.Usage()
		state := dirState{
			Path: d.Path(), ID: metadata.FormatID(d.ID()), Journal: d.JournalPath(), Error: errorText(d.Err()),
			Space: s.Level.String(), SpaceMessage: s.Message, MinFreeBytes: s.MinFree,
			JournalBytes: x.JournalBytes, JournalLimit: x.JournalLimit, DeferredBytes: x.DeferredBytes, CachedBytes: x.CachedBytes,
			OpenSegmentFiles: x.OpenFiles,
		}
		if !s.Known {
			state.Space = "unknown"
		}
		state.FreeBytes, state.TotalBytes, state.JournalFreeBytes = s.Free, s.Total, s.JournalFree
		for _, l := range d.Logs() {
			state.Logs++
			if l.Offline() != nil {
				state.Offline++
			}
		}
		list = append(list, state)
	}
	for _, d := range v.Storage.Failed() {
		list = append(list, dirState{Path: d.Path, ID: metadata.FormatID(d.ID), Journal: d.Journal, Error: d.Err.Error(), Space: "unknown"})
	}
	return map[string]any{"dirs": list}, nil
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
