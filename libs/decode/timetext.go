package decode

import (
	"math"
	"math/bits"
)

const (
	microsPerSecond = 1_000_000
	secondsPerDay   = 86_400
	microsPerDay    = secondsPerDay * microsPerSecond
)

// Values that Debezium's PostgreSQL connector writes for infinity. Timestamps in microseconds; milliseconds times a
// thousand give the same. Dates are int32 overflows of PostgreSQL's own infinities.
const (
	infinityMicros    = 9223372036825200000
	negInfinityMicros = -9223372036832400000
	infinityDays      = -2147472692
	negInfinityDays   = -2147472691
)

// timeText reads ISO-8601 text: [+-]YYYY-MM-DD, then T or a space and hh:mm[:ss[.f…]], then Z or an offset.
type timeText struct {
	b  []byte
	ok bool
}

// parseTimestamp answers microseconds since 1970-01-01, in UTC if there is a zone. Digits below the microsecond are
// dropped. ok is false when the text is no timestamp or out of range.
func parseTimestamp(text []byte, needZone bool) (micros int64, ok bool) {
	t := timeText{text, true}
	days := t.date()
	if !t.ok || len(t.b) == 0 || (t.b[0] != 'T' && t.b[0] != ' ') {
		return 0, false
	}
	t.b = t.b[1:]
	ofDay := t.timeOfDay()
	offset, zoned := t.zone()
	if !t.ok || len(t.b) > 0 || (needZone && !zoned) {
		return 0, false
	}
	return combine(days, ofDay-offset*microsPerSecond)
}

// parseDate answers days since 1970-01-01; a zone behind the date is cosmetic.
func parseDate(text []byte) (days int64, ok bool) {
	t := timeText{text, true}
	days = t.date()
	t.zone()
	return days, t.ok && len(t.b) == 0
}

// combine is days and microseconds as microseconds; ok is false on overflow.
func combine(days, micros int64) (int64, bool) {
	if days > math.MaxInt64/microsPerDay+1 || days < math.MinInt64/microsPerDay-1 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(days), microsPerDay)
	if days < 0 {
		hi -= microsPerDay
	}
	lo, carry := bits.Add64(lo, uint64(micros), 0)
	hi += carry + uint64(micros>>63)
	return int64(lo), hi == uint64(int64(lo)>>63)
}

func (t *timeText) fail() int64 {
	t.ok = false
	return 0
}

// digits reads between lo and hi digits.
func (t *timeText) digits(lo, hi int) (v int64, n int) {
	for n < hi && n < len(t.b) && t.b[n] >= '0' && t.b[n] <= '9' {
		v = v*10 + int64(t.b[n]-'0')
		n++
	}
	t.b = t.b[n:]
	if n < lo {
		t.ok = false
	}
	return v, n
}

func (t *timeText) skip(c byte) bool {
	if len(t.b) > 0 && t.b[0] == c {
		t.b = t.b[1:]
		return true
	}
	return false
}

func (t *timeText) date() (days int64) {
	negative := t.skip('-')
	if !negative {
		t.skip('+')
	}
	year, _ := t.digits(4, 9)
	if negative {
		year = -year
	}
	if !t.skip('-') {
		return t.fail()
	}
	month, _ := t.digits(2, 2)
	if !t.skip('-') {
		return t.fail()
	}
	day, _ := t.digits(2, 2)
	if !t.ok || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return t.fail()
	}
	return daysFromCivil(year, month, day)
}

func daysIn(year, month int64) int64 {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysFromCivil counts days since 1970-01-01 in the proleptic Gregorian calendar with a year 0.
func daysFromCivil(year, month, day int64) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	ofEra := year - era*400
	ofYear := (153*(month-3)+2)/5 + day - 1
	return era*146097 + ofEra*365 + ofEra/4 - ofEra/100 + ofYear - 719468
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// timeOfDay answers microseconds.
func (t *timeText) timeOfDay() int64 {
	hour, _ := t.digits(2, 2)
	if !t.skip(':') {
		return t.fail()
	}
	minute, _ := t.digits(2, 2)
	second, micros := int64(0), int64(0)
	if t.skip(':') {
		second, _ = t.digits(2, 2)
		if t.skip('.') {
			v, n := t.digits(1, 6)
			for ; n < 6; n++ {
				v *= 10
			}
			micros = v
			t.digits(0, 12)
		}
	}
	if hour > 23 || minute > 59 || second > 59 {
		return t.fail()
	}
	return (hour*3600+minute*60+second)*microsPerSecond + micros
}

// zone answers the offset from UTC, seconds.
func (t *timeText) zone() (seconds int64, zoned bool) {
	if t.skip('Z') {
		return 0, true
	}
	sign := int64(1)
	switch {
	case t.skip('-'):
		sign = -1
	case t.skip('+'):
	default:
		return 0, false
	}
	hour, _ := t.digits(2, 2)
	minute, second := int64(0), int64(0)
	if t.skip(':') {
		minute, _ = t.digits(2, 2)
		if t.skip(':') {
			second, _ = t.digits(2, 2)
		}
	}
	if hour > 18 || minute > 59 || second > 59 {
		t.ok = false
	}
	return sign * (hour*3600 + minute*60 + second), true
}
