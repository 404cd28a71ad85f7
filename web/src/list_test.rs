use super::*;

const SCHEMA: Schema = Schema {
    path: "/things",
    columns: &[
        Column::text("Name", "name"),
        Column::number("Size", "size"),
        Column::text("Why", ""),
    ],
    states: &["ALIVE", "DEAD"],
    sort: "name",
    descending: false,
};

fn parse(query: &str) -> Result<ListQuery, BadQuery> {
    let uri: Uri = format!("/things{query}").parse().expect("an address");
    ListQuery::parse(&uri, &SCHEMA)
}

fn refused(query: &str) -> String {
    parse(query).expect_err("must be refused").to_string()
}

#[test]
fn an_empty_query_has_the_usual_order() {
    let query = parse("").expect("a query");
    assert_eq!(
        (query.page, query.size, query.sort, query.descending),
        (1, 50, "name", false)
    );
    assert_eq!(
        parse("?q=&state=&sort=").expect("as a form sends it"),
        query
    );
}

#[test]
fn a_query_that_cannot_be_names_the_field_and_the_fix() {
    assert_eq!(refused("?page=0"), "page: `0`; give a number from 1");
    assert_eq!(refused("?page=x"), "page: `x`; give a number from 1");
    assert_eq!(
        refused("?size=201"),
        "size: `201`; give a number from 1 to 200"
    );
    assert_eq!(
        refused("?sort=colour"),
        "sort: `colour`; give one of name, size"
    );
    assert_eq!(refused("?dir=up"), "dir: `up`; give one of asc, desc");
    assert_eq!(
        refused("?state=odd"),
        "state: `odd`; give one of ALIVE, DEAD"
    );
    assert!(refused("?colour=red").contains("unknown field `colour`"));
    assert!(refused("?page=1&page=2").contains("duplicate field `page`"));
    assert!(refused(&format!("?q={}", "x".repeat(257))).starts_with("q: 257 bytes"));
    assert!(refused("?q=a%00b").starts_with("q: "));
}

#[test]
fn a_page_is_cut_out_of_what_is_sorted() {
    let query = parse("?sort=size&dir=desc&size=3&page=2").expect("a query");
    let (rows, total) = query.cut((0..10).collect(), |n: &u32| *n);
    assert_eq!((rows, total), (vec![6, 5, 4], 10));
    let beyond = parse("?size=4&page=99").expect("a query");
    let (rows, _) = beyond.cut((0..10).collect(), |n: &u32| *n);
    assert_eq!(rows, vec![8, 9], "the last page stands for those behind it");
}

#[test]
fn a_page_has_the_rows_that_it_would_have_of_the_whole_table_sorted() {
    // Many keys are the same.
    let rows: Vec<(u32, usize)> = (0..997).map(|n| (n * 7919 % 13, n as usize)).collect();
    for dir in ["asc", "desc"] {
        let mut sorted = rows.clone();
        sorted.sort_by_key(|(key, _)| *key);
        if dir == "desc" {
            sorted.reverse();
        }
        for size in [1, 50, 200] {
            for page in [1, 2, 5, 20] {
                let query = parse(&format!("?dir={dir}&size={size}&page={page}")).expect("a query");
                let (shown, total) = query.cut(rows.clone(), |(key, _)| *key);
                let first = (query.page_of(total) - 1) * size;
                let last = (first + size).min(rows.len());
                assert_eq!((shown.as_slice(), total), (&sorted[first..last], 997));
            }
        }
    }
    let query = parse("").expect("a query");
    assert_eq!(query.cut(Vec::<u32>::new(), |n| *n), (vec![], 0));
}

#[test]
fn links_keep_what_was_asked_and_say_no_more_than_needed() {
    let query = parse("?q=A%26b&state=alive&size=3&page=2").expect("a query");
    let frame = query.frame(&SCHEMA, 10);
    assert_eq!(frame.range, "4–6 of 10");
    assert_eq!(frame.place, "Page 2 of 4");
    assert_eq!(
        frame.previous.as_deref(),
        Some("/things?q=a%26b&state=ALIVE&size=3")
    );
    assert_eq!(
        frame.next.as_deref(),
        Some("/things?q=a%26b&state=ALIVE&size=3&page=3")
    );
    assert_eq!(frame.heads[0].sorted, Some("ascending"));
    assert_eq!(
        frame.heads[0].href,
        "/things?q=a%26b&state=ALIVE&sort=name&dir=desc&size=3"
    );
    assert_eq!(frame.heads[2].href, "");
    let frame = parse("").expect("a query").frame(&SCHEMA, 0);
    assert_eq!(
        (frame.range.as_str(), frame.previous, frame.next),
        ("Nothing", None, None)
    );
}

#[test]
fn a_search_does_not_care_for_capitals() {
    let query = parse("?q=Ab%C3%89").expect("a query");
    assert!(query.finds(&["no", "xxABé"]) && !query.finds(&["ab"]));
    assert!(parse("").expect("a query").finds(&[]));
}
