# Tests that values whose output functions look up catalogs (OID aliases, aclitem) are printed as by PostgreSQL, and that
# the walsender's memory does not grow with the OIDs: PostgreSQL's caches keep also those that do not exist.
use strict;
use warnings;

use Clairon::Test qw(amount wait_until);
use JSON ();
use Test::More;

my $GROWTH = 8;    # MB
my $OIDS   = 100;

my $pg = Clairon::Test::postgresql('main', conf => 'autovacuum = off');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Each type with the name of an existing object.
my %objects = (
    regclass => 'own.t', regtype => 'integer', regproc => 'now', regprocedure => 'now()', regoper => 'pg_catalog.||/',
    regoperator => '+(integer,integer)', regrole => 'mallory', regnamespace => 'own', regconfig => 'simple',
    regdictionary => 'simple', regcollation => '"C"');
my @types   = sort keys %objects;
my $columns = join ', ', map { "$_ ${_}[]" } @types;
sql(qq{CREATE ROLE mallory LOGIN; CREATE SCHEMA own AUTHORIZATION mallory; SET ROLE mallory;
    CREATE DOMAIN own.domain AS regclass; CREATE TYPE own.pair AS (a regclass, b own.domain[]);
    CREATE TYPE own.span AS RANGE (subtype = regclass);
    CREATE TYPE own.deep AS RANGE (subtype = regclass[]);
    CREATE TABLE own.t (id int PRIMARY KEY, $columns, acl aclitem[], pair own.pair, span own.span, many own.span_multirange, deep own.deep,
        who regclass[]);
    SELECT clairon.watch('own.t', 'USER', 'who');
    CREATE TABLE own.marker (id int PRIMARY KEY, u text DEFAULT 'u');
    SELECT clairon.watch('own.marker', 'USER', 'u')});
sql(q{SELECT pg_create_logical_replication_slot('slot', 'clairon')});

# A row of OIDs from $from on; `at` is the OID before the first one.
sub insert
{
    my ($ids, $from) = @_;
    my $oids = "(SELECT array_agg((at + i)::oid) FROM generate_series(1, $OIDS) AS i)";
    return "INSERT INTO own.t SELECT id, " . join(', ', map { "$oids\::${_}[]" } @types)
        . ", (SELECT array_agg(makeaclitem((at + 2 * i)::oid, (at + 2 * i + 1)::oid, 'SELECT', false)) FROM generate_series(1, $OIDS / 2) AS i)"
        . ", row((at + $OIDS + 1)::oid, (SELECT array_agg((at + $OIDS + i)::oid) FROM generate_series(2, $OIDS) AS i)::own.domain[])::own.pair"
        . ", own.span((at + 3 * $OIDS)::oid::regclass, (at + 3 * $OIDS + 1)::oid::regclass)"
        . ", own.span_multirange(own.span((at + 2 * $OIDS)::oid::regclass, (at + 2 * $OIDS + 1)::oid::regclass))"
        . ", own.deep((SELECT array_agg((at + 4 * $OIDS + i)::oid) FROM generate_series(1, $OIDS) AS i)::regclass[], NULL)"
        . ", (SELECT array_agg((at + 5 * $OIDS + i)::oid) FROM generate_series(1, $OIDS) AS i)::regclass[]"
        . " FROM generate_series($ids) AS id, LATERAL (SELECT $from + id::bigint * 6 * $OIDS AS at) AS x";
}

open my $out, '-|', 'pg_recvlogical', '-d', $pg->connstr('postgres'), '--slot', 'slot', '--start', '--no-loop', '-f', '-',
    map { ('-o', $_) } 'owner_time=1000s', 'owner_bytes=1000MB'
    or die "pg_recvlogical: $!";
my $walsender = wait_until('the slot is active', sub { sql('SELECT active_pid FROM pg_replication_slots WHERE active') });

# Returns the notifications up to that of a marker.
my $markers = 0;
sub notifications
{
    sql('INSERT INTO own.marker (id) VALUES (' . ++$markers . ')');
    my @found;
    while (my $line = <$out>)
    {
        my $notification = JSON::decode_json($line);
        return @found if $notification->{metadata}{source} eq 'own.marker';
        push @found, $notification;
    }
    die 'the walsender ended';
}

# Returns the private memory of the walsender in MB.
sub memory
{
    open my $status, '<', "/proc/$walsender/status" or die $!;
    return (join('', <$status>) =~ /^RssAnon:\s+(\d+)/m)[0] / 1024;
}

# ---- values are those of PostgreSQL

sql(insert('1, 1', 3_000_000_000));
sql('INSERT INTO own.t SELECT 2, ' . join(', ', map { "ARRAY['$objects{$_}', '0']::${_}[]" } @types)
        . q{, ARRAY[makeaclitem('mallory'::regrole, 10, 'SELECT', true)], row('own.t'::regclass, '{own.t,pg_class,4000000000}'::own.domain[])::own.pair, own.span('pg_class', 'own.t'), own.span_multirange(own.span('pg_class', 'own.t')),
        own.deep('{pg_class}', NULL), '{own.t,pg_class,4000000000}'});
my %printed = map { my $row = JSON::decode_json($_); $row->{id} => $row }
    split /\n/, sql('SET search_path = pg_catalog; SELECT jsonb_build_object(' . join(', ', "'id'", 'id', map { ("'$_'", "$_\::text[]") } @types, 'acl', 'who')
        . q{) || jsonb_build_object('span', span::text, 'many', many::text, 'deep', deep::text, 'pair', jsonb_build_object('a', (pair).a::text, 'b', (pair).b::text[])) FROM own.t});
my @rows = notifications();
is(scalar @rows, 2, 'both rows are sent');
for my $row (map { $_->{payload}{after} } @rows)
{
    is_deeply($row, $printed{ $row->{id} }, "row $row->{id} is printed as by PostgreSQL");
}
is_deeply($rows[1]{routing}{audience}{targets}, ['own.t', 'pg_class', '4000000000'], 'targets are printed as by PostgreSQL');

# ---- memory

my $known = 0;

# Tests that the notifications arrive, and that the memory has grown by less than this number of MB.
sub grows_little
{
    my ($what, $count, $growth) = @_;
    is(scalar notifications(), $count, "$what: the notifications are sent");
    my $now = memory();
    cmp_ok($now - $known, '<', $growth, sprintf '%s: the memory grows by less than %d MB, from %.0f to %.0f MB', $what, $growth, $known, $now) if $known;
    $known = $now;
    return;
}

my $count = amount(200, 2000);
for my $round (1 .. 4)
{
    sql(insert(join(', ', 1 + $round * $count, ($round + 1) * $count), 2_000_000_000));
    grows_little("round $round of rows of unknown OIDs", $count, $GROWTH);
}
sql(q{INSERT INTO own.t (id, who, regtype) SELECT 5, '{1}', array_agg((2500000000 + i)::oid) FROM generate_series(1, 200000) AS i});
grows_little('a row of 200000 unknown OIDs', 1, 2 * $GROWTH);
my $deep = amount(40, 400);
sql(qq{INSERT INTO own.t (id, who, deep)
    SELECT -id, '{1}', own.deep((SELECT array_agg((2600000000 + id * 5000 + i)::oid) FROM generate_series(1, 5000) AS i)::regclass[], NULL)
    FROM generate_series(1, $deep) AS id});
grows_little('ranges of arrays of unknown OIDs', $deep, $GROWTH);

# The rows of functions contain their sources.
my $functions = 80;
sql(qq{SET ROLE mallory; DO \$\$ BEGIN
    FOR i IN 1 .. $functions LOOP
        EXECUTE format('CREATE FUNCTION own.f%s() RETURNS text LANGUAGE sql AS %L', i,
            'SELECT ''' || (SELECT string_agg(md5((i * j)::text), '') FROM generate_series(1, 20000) AS j) || '''');
    END LOOP;
END \$\$;
INSERT INTO own.t (id, who, regproc) SELECT 6, '{1}', array_agg(('own.f' || i)::regproc) FROM generate_series(1, $functions) AS i});
grows_little('functions with long sources', 1, 3 * $GROWTH);

kill 'INT', $walsender;
close $out;
done_testing();
