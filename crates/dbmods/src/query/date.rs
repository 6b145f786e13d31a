//! Days since 1970-01-01 and the Gregorian calendar, extended to all years as SQL does.

/// The first day that a DATE literal can name: 0001-01-01.
pub const FIRST: i32 = -719_162;
/// The last: 9999-12-31.
pub const LAST: i32 = 2_932_896;

/// The day called `year-month-day`; `None` if there is none, or the year is not in 1 to 9999.
pub fn from_civil(year: i32, month: u32, day: u32) -> Option<i32> {
    let fits = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=month_days(year, month)).contains(&day);
    if !fits {
        return None;
    }
    // Years begin in March, so that the leap day is the last (Hinnant, chrono-compatible low-level date algorithms).
    let (month, day) = (month as i32, day as i32);
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Year, month and day.
pub fn civil(days: i32) -> (i32, u32, u32) {
    let days = i64::from(days) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year as i32, month as u32, day as u32)
}

/// Returns the same day of another month, or the last day of a shorter month; `None` outside years 1 to 9999.
pub fn add_months(days: i32, months: i32) -> Option<i32> {
    let (year, month, day) = civil(days);
    let total = year
        .checked_mul(12)?
        .checked_add(month as i32 - 1)?
        .checked_add(months)?;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    if !(1..=9999).contains(&year) {
        return None;
    }
    from_civil(year, month, day.min(month_days(year, month)))
}

/// Reads `YYYY-MM-DD`; leading zeros may lack and blanks may surround it.
pub fn parse(text: &str) -> Option<i32> {
    let mut parts = text.trim_matches(' ').split('-');
    let mut number = |digits_max: usize| {
        let part = parts.next()?;
        let digits =
            (1..=digits_max).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        if digits {
            part.parse::<u32>().ok()
        } else {
            None
        }
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    if parts.next().is_some() {
        return None;
    }
    from_civil(year as i32, month, day)
}

/// `YYYY-MM-DD`.
pub fn text(days: i32) -> String {
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

fn month_days(year: i32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against the C library's idea of known days, and the round trip of every day there is.
    #[test]
    fn calendar() {
        assert_eq!(from_civil(1970, 1, 1), Some(0));
        assert_eq!(from_civil(2000, 2, 29), Some(11_016));
        assert_eq!(from_civil(1992, 1, 1), Some(8035));
        assert_eq!(from_civil(1, 1, 1), Some(FIRST));
        assert_eq!(from_civil(9999, 12, 31), Some(LAST));
        assert_eq!(from_civil(1900, 2, 29), None);
        for days in FIRST..=LAST {
            let (year, month, day) = civil(days);
            assert_eq!(from_civil(year, month, day), Some(days));
        }
    }

    #[test]
    fn months() {
        let day = |text| parse(text).unwrap();
        assert_eq!(add_months(day("1994-01-31"), 1), Some(day("1994-02-28")));
        assert_eq!(add_months(day("1996-03-31"), -1), Some(day("1996-02-29")));
        assert_eq!(add_months(day("1994-12-01"), 13), Some(day("1996-01-01")));
        assert_eq!(add_months(day("9999-12-01"), 1), None);
        assert_eq!(add_months(0, i32::MAX), None);
    }

    #[test]
    fn spelling() {
        assert_eq!(parse(" 1994-1-1 "), parse("1994-01-01"));
        for bad in [
            "",
            "1994",
            "1994-01",
            "1994-01-01-01",
            "1994-02-30",
            "a-b-c",
            "+1994-1-1",
            "19945-1-1",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(text(LAST), "9999-12-31");
    }
}
