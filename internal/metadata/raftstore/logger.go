package raftstore

import (
	"fmt"

	"go.uber.org/zap"
)

// raftLogger passes the library's messages on. Its routine messages are of interest only with debug
// logging.
type raftLogger struct{ log *zap.SugaredLogger }

func (l raftLogger) Debug(v ...any)                 { l.log.Debug(v...) }
func (l raftLogger) Debugf(format string, v ...any) { l.log.Debugf(format, v...) }
func (l raftLogger) Info(v ...any)                  { l.log.Debug(v...) }
func (l raftLogger) Infof(format string, v ...any)  { l.log.Debugf(format, v...) }
func (l raftLogger) Warning(v ...any)               { l.log.Warn(v...) }
func (l raftLogger) Warningf(format string, v ...any) {
	l.log.Warnf(format, v...)
}
func (l raftLogger) Error(v ...any)                 { l.log.Error(v...) }
func (l raftLogger) Errorf(format string, v ...any) { l.log.Errorf(format, v...) }

// The library calls these when its state contradicts itself. The panic ends in node.guard.

func (l raftLogger) Fatal(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Fatalf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
func (l raftLogger) Panic(v ...any)                 { panic(fmt.Sprint(v...)) }
func (l raftLogger) Panicf(format string, v ...any) { panic(fmt.Sprintf(format, v...)) }
