//! What a certificate says: whom it names, and when it is valid.
//!
//! Only certificates that rustls has verified, and our own, are read here.

use std::time::{SystemTime, UNIX_EPOCH};

use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Most names of one certificate that are compared with identities.
pub const MAXIMUM_NAMES: usize = 64;

/// The names of a certificate: its subject alternative DNS names, else its last common name.
pub fn names(certificate: &[u8]) -> Vec<String> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else { return Vec::new() };
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let dns_names = alternative.iter().flat_map(|extension| &extension.value.general_names);
    let dns_names = dns_names.filter_map(|name| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    });
    let names: Vec<String> = dns_names.take(MAXIMUM_NAMES).collect();
    if !names.is_empty() {
        return names;
    }
    let common = certificate.subject().iter_common_name().last();
    common.and_then(|name| name.as_str().ok()).map(str::to_owned).into_iter().collect()
}

/// Whether a name fits a pattern: an equal name, or `*.` in front of a domain for one label.
pub fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(domain) => {
            name.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain))
        }
        None => name.eq_ignore_ascii_case(pattern),
    }
}

/// What is wrong with the time of a certificate now, with the date; none if it is valid.
pub fn outside_validity(certificate: &[u8]) -> Option<String> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else {
        return Some("cannot be read".to_owned());
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let validity = certificate.validity();
    if validity.not_after.timestamp() < now {
        return Some(format!("expired on {}", validity.not_after));
    }
    (validity.not_before.timestamp() > now).then(|| format!("is not valid before {}", validity.not_before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};

    fn made(alternative: &[&str], common: Option<&str>, until_year: i32) -> Vec<u8> {
        let names: Vec<String> = alternative.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        common.into_iter().for_each(|name| params.distinguished_name.push(DnType::CommonName, name));
        params.not_before = date_time_ymd(until_year - 1, 1, 1);
        params.not_after = date_time_ymd(until_year, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn alternative_names_come_before_the_common_name() {
        assert_eq!(names(&made(&["a.example", "b.example"], Some("c"), 4000)), ["a.example", "b.example"]);
        assert_eq!(names(&made(&[], Some("tenant-a"), 4000)), ["tenant-a"]);
        assert_eq!(names(&made(&["10.0.0.1"], Some("host"), 4000)), ["host"], "an address is no DNS name");
        assert!(names(&made(&[], None, 4000)).is_empty());
        assert!(names(b"no certificate").is_empty());
        let many: Vec<String> = (0..100).map(|number| format!("n{number}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(names(&made(&many, None, 4000)).len(), MAXIMUM_NAMES);
    }

    #[test]
    fn a_star_stands_for_one_label() {
        assert!(fits("db.example", "DB.example") && fits("*.example", "db.example"));
        assert!(!fits("*.example", "example") && !fits("*.example", ".example"));
        assert!(!fits("*.example", "a.b.example") && !fits("db.example", "db.example.org"));
        assert!(!fits("db.example", "*.example"), "a wildcard of a client is a name like another");
    }

    #[test]
    fn the_date_of_an_invalid_certificate_is_told() {
        assert_eq!(outside_validity(&made(&["a"], None, 4000)).unwrap().split(' ').next_back(), Some("+00:00"));
        let expired = outside_validity(&made(&["a"], None, 2001)).unwrap();
        assert!(expired.starts_with("expired on Jan  1 00:00:00 2001"), "{expired}");
        assert!(outside_validity(b"no certificate").is_some());
    }
}
