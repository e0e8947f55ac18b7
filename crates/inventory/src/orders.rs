//! Order lines of a shop, as stock movements.

use std::{collections::BTreeMap, io, path::Path};

use csv::ByteRecord;
use serde::{Deserialize, Serialize};

use crate::domain::{Delta, Reference, Sku};

/// One order line that moves stock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderLine {
    /// Its place in the file: 1 is the first record behind the header. Skipped records count.
    pub number: u64,
    /// The invoice it belongs to.
    pub invoice: String,
    /// The SKU, as written in the file.
    pub sku: Sku,
    /// Units that enter the stock: negative for a sale, positive for a return.
    pub delta: Delta,
}

impl OrderLine {
    /// The reference of this movement in the ledger: the invoice and the place in the file, because one invoice may
    /// name one SKU on several lines.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{}#{}", self.invoice, self.number)
    }
}

/// Why a line moves no stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Skip {
    /// Not a record of the columns that the header announces, not UTF-8 in a column that is read, or part of a record
    /// that a quote extends over several lines.
    #[error("malformed")]
    Malformed,
    /// No invoice number.
    #[error("no invoice")]
    NoInvoice,
    /// The invoice number has control characters, or more characters than a reference may have.
    #[error("bad invoice")]
    BadInvoice,
    /// The SKU is blank, too long, has control characters, or is `.` or `..`, which no URL path can name.
    #[error("bad SKU")]
    BadSku,
    /// The quantity is no whole number.
    #[error("bad quantity")]
    BadQuantity,
    /// The quantity is zero.
    #[error("zero quantity")]
    ZeroQuantity,
    /// More units than a movement may have.
    #[error("too many units")]
    TooManyUnits,
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OrdersError {
    /// The file can't be read.
    #[error("can't read the order lines from {path}")]
    File {
        /// The file.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// A column is missing.
    #[error("the header has no column {0}: the file needs InvoiceNo, StockCode and Quantity")]
    Column(&'static str),
    /// The header can't be read.
    #[error("the file has no readable header")]
    Header(#[source] csv::Error),
}

/// The lines of a file that move stock, in its order, and how many were left out.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The lines that move stock.
    pub lines: Vec<OrderLine>,
    /// How many lines of the file move no stock, by reason.
    pub skipped: BTreeMap<Skip, u64>,
}

#[derive(Deserialize)]
struct Record {
    #[serde(rename = "InvoiceNo")]
    invoice: String,
    #[serde(rename = "StockCode")]
    sku: String,
    #[serde(rename = "Quantity")]
    quantity: String,
}

impl Orders {
    /// Whether each line that was read moves stock, or says that it moves none.
    pub(crate) fn are_whole(skipped: &BTreeMap<Skip, u64>) -> bool {
        skipped.keys().all(|skip| *skip == Skip::ZeroQuantity)
    }

    /// Reads the file; at most `limit` lines that move stock, when given.
    ///
    /// # Errors
    ///
    /// [`OrdersError`] when the file can't be read or has another header. A bad line is skipped and counted.
    pub async fn load(path: &Path, limit: Option<usize>) -> Result<Self, OrdersError> {
        let bytes = tokio::fs::read(path)
            .await
            .map_err(|source| OrdersError::File { path: path.display().to_string(), source })?;
        Self::parse(&bytes, limit)
    }

    /// Reads CSV with a header.
    ///
    /// # Errors
    ///
    /// As [`Orders::load`].
    pub fn parse(bytes: &[u8], limit: Option<usize>) -> Result<Self, OrdersError> {
        // A byte order mark would become a part of the first column's name.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let mut reader = csv::Reader::from_reader(bytes);
        let header = reader.byte_headers().map_err(OrdersError::Header)?.clone();
        for column in ["InvoiceNo", "StockCode", "Quantity"] {
            if !header.iter().any(|name| name == column.as_bytes()) {
                return Err(OrdersError::Column(column));
            }
        }
        let mut orders = Self::default();
        // Bytes, since a column that nobody reads may have another encoding.
        let mut record = ByteRecord::new();
        for number in 1.. {
            if limit.is_some_and(|limit| orders.lines.len() >= limit) {
                break;
            }
            let read = match reader.read_byte_record(&mut record) {
                Ok(false) => break,
                Ok(true) => record.deserialize(Some(&header)),
                Err(error) => Err(error),
            };
            // A quote that is not closed joins lines, perhaps up to the next such quote, into one record that fits.
            let lines = lines_of(&record);
            match read
                .ok()
                .filter(|_| lines == 1)
                .ok_or(Skip::Malformed)
                .and_then(|read: Record| read.into_line(number))
            {
                Ok(line) => orders.lines.push(line),
                Err(skip) => *orders.skipped.entry(skip).or_default() += lines,
            }
        }
        Ok(orders)
    }
}

fn lines_of(record: &ByteRecord) -> u64 {
    let text = record.as_slice();
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    1 + text.iter().filter(|&&byte| byte == b'\n').count() as u64
}

impl Record {
    fn into_line(self, number: u64) -> Result<OrderLine, Skip> {
        if self.invoice.trim().is_empty() {
            return Err(Skip::NoInvoice);
        }
        let sku = Sku::new(&self.sku).map_err(|_| Skip::BadSku)?;
        let quantity: i64 = self.quantity.trim().parse().map_err(|_| Skip::BadQuantity)?;
        if quantity == 0 {
            return Err(Skip::ZeroQuantity);
        }
        let delta = quantity.checked_neg().and_then(|delta| Delta::new(delta).ok()).ok_or(Skip::TooManyUnits)?;
        let line = OrderLine { number, invoice: self.invoice, sku, delta };
        match Reference::try_from(line.reference()) {
            Ok(_) => Ok(line),
            Err(_) => Err(Skip::BadInvoice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "InvoiceNo,StockCode,Description,Quantity,UnitPrice,CustomerID,Country\n";

    fn parse(records: &str) -> Orders {
        Orders::parse(format!("{HEADER}{records}").as_bytes(), None).unwrap()
    }

    fn only(records: &str) -> (String, i64, String) {
        let orders = parse(records);
        assert_eq!(orders.lines.len(), 1, "{orders:?}");
        let line = &orders.lines[0];
        (line.sku.to_string(), line.delta.get(), line.reference())
    }

    #[test]
    fn a_sale_takes_stock_and_a_return_brings_it_back() {
        assert_eq!(
            only("536365,85123A,WHITE HANGING HEART T-LIGHT HOLDER,6,2.55,17850,United Kingdom\n"),
            ("85123A".to_owned(), -6, "536365#1".to_owned())
        );
        assert_eq!(
            only("C536379,D,Discount,-1,27.5,14527,United Kingdom\n"),
            ("D".to_owned(), 1, "C536379#1".to_owned())
        );
    }

    #[test]
    fn stock_written_off_without_price_and_customer_counts_as_a_return() {
        assert_eq!(only("536589,21777,,-10,0.0,,United Kingdom\n"), ("21777".to_owned(), 10, "536589#1".to_owned()));
    }

    #[test]
    fn codes_are_kept_as_they_are_written() {
        for sku in ["BANK CHARGES", "gift_0001_20", "15056bl", "m", "POST", "C2", "DCGS0076", "47566b", "Ünïcode/50%"]
        {
            assert_eq!(only(&format!("536370,{sku},x,3,1.0,,France\n")).0, sku);
        }
    }

    #[test]
    fn quoted_fields_may_hold_commas_and_quotes() {
        let record = "536381,\"22,A\",\"SET OF 3 \"\"HEARTS\"\", SMALL\",1,1.0,,United Kingdom\n";
        assert_eq!(only(record), ("22,A".to_owned(), -1, "536381#1".to_owned()));
    }

    #[test]
    fn lines_of_one_invoice_and_sku_have_references_of_their_own() {
        let orders = parse("536381,71270,x,1,1.25,15311,UK\n536381,71270,x,3,1.25,15311,UK\n");
        assert_eq!(orders.lines.iter().map(OrderLine::reference).collect::<Vec<_>>(), ["536381#1", "536381#2"]);
    }

    #[test]
    fn what_moves_no_stock_is_counted_by_its_reason() {
        let long = "x".repeat(65);
        let orders = parse(&format!(
            "1,A,x,0,1,,UK\n2,A,x,1.5,1,,UK\n3,A,x,,1,,UK\n4,A,x,1e3,1,,UK\n5, ,x,1,1,,UK\n6,..,x,1,1,,UK\n\
             7,{long},x,1,1,,UK\n8,A\tB,x,1,1,,UK\n,A,x,1,1,,UK\n10,A,x\n11,A,x,1000000001,1,,UK\n\
             12,A,x,-9223372036854775808,1,,UK\n13,A,x,99999999999999999999,1,,UK\n14,A,x,-1,1,,UK\n\
             1\u{7}5,A,x,1,1,,UK\n{},A,x,1,1,,UK\n",
            "1".repeat(200)
        ));
        assert_eq!(orders.lines.len(), 1);
        assert_eq!(orders.lines[0].reference(), "14#14", "skipped lines keep their numbers");
        assert_eq!(
            orders.skipped.into_iter().collect::<Vec<_>>(),
            [
                (Skip::Malformed, 1),
                (Skip::NoInvoice, 1),
                (Skip::BadInvoice, 2),
                (Skip::BadSku, 4),
                (Skip::BadQuantity, 4),
                (Skip::ZeroQuantity, 1),
                (Skip::TooManyUnits, 2)
            ]
        );
    }

    #[test]
    fn a_record_that_is_not_utf8_is_skipped_only_if_that_part_is_needed() {
        let mut bytes = HEADER.as_bytes().to_vec();
        bytes.extend_from_slice(b"1,A\xff,x,1,1,,UK\n2,B,x,1,1,,UK\n3,C,\xa3 SIGN,1,1,,UK\n");
        let orders = Orders::parse(&bytes, None).unwrap();
        assert_eq!(orders.lines.iter().map(|line| line.sku.as_str()).collect::<Vec<_>>(), ["B", "C"]);
        assert_eq!(orders.skipped[&Skip::Malformed], 1);
    }

    #[test]
    fn each_line_that_an_open_quote_takes_in_is_counted() {
        let line = "1,A,x,1,1,,UK\n";
        let open = "2,B,\"6 inch RULER,1,1,,UK\n";
        let to_the_end = parse(&[line, open, line, line].concat());
        assert_eq!((to_the_end.lines.len(), to_the_end.skipped[&Skip::Malformed]), (1, 3));
        // This record has all columns, the invoice of one line and the quantity of another.
        let to_the_next = parse(&[line, open, line, "3,C,RULER\",1,1,,UK\n", line].concat());
        assert_eq!((to_the_next.lines.len(), to_the_next.skipped[&Skip::Malformed]), (2, 3));
        assert!(!Orders::are_whole(&to_the_next.skipped));
        assert!(Orders::are_whole(&parse("1,A,x,0,1,,UK\n").skipped));
    }

    #[test]
    fn a_byte_order_mark_does_not_hide_the_first_column() {
        let orders = Orders::parse(format!("\u{feff}{HEADER}1,A,x,1,1,,UK\n").as_bytes(), None).unwrap();
        assert_eq!(orders.lines.len(), 1);
    }

    #[test]
    fn a_header_without_a_needed_column_is_refused_with_its_name() {
        let error = Orders::parse(b"InvoiceNo,StockCode\n1,A\n", None).unwrap_err();
        assert!(matches!(error, OrdersError::Column("Quantity")), "{error}");
        assert!(Orders::parse(b"", None).is_err());
    }

    #[test]
    fn the_limit_counts_lines_that_move_stock() {
        let text = format!("{HEADER}1,A,x,0,1,,UK\n2,A,x,1,1,,UK\n3,A,x,1,1,,UK\n");
        let orders = Orders::parse(text.as_bytes(), Some(1)).unwrap();
        assert_eq!((orders.lines.len(), orders.skipped[&Skip::ZeroQuantity]), (1, 1));
    }

    #[tokio::test]
    async fn the_committed_file_has_over_twenty_thousand_usable_lines() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/online-retail.csv");
        let orders = Orders::load(&path, None).await.unwrap();
        assert_eq!(orders.lines.len(), 21_338);
        assert!(orders.skipped.is_empty(), "{:?}", orders.skipped);
        assert_eq!(orders.lines.iter().filter(|line| line.delta.get() > 0).count(), 338);
        assert!(orders.lines.iter().any(|line| line.sku.as_str() == "BANK CHARGES"));
    }
}
