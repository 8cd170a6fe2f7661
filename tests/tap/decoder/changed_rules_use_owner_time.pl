# Tests that reading changed rules uses the time of their table's owner. Rows that are denied because the rules are unread
# reload the lists of the table; rows of other owners are sent.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => 'autovacuum = off');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns the frames by transaction, each as kind, sub-ordinal and, for a reload, its source and rule.
sub transactions
{
    my ($time) = @_;
    my $hex = sql(qq{SELECT string_agg(encode(data, 'hex'), '') FROM pg_logical_slot_get_binary_changes('slot', NULL, NULL,
        'mode', 'framed', 'owner_time', '$time')});
    my ($bytes, @transactions) = (pack 'H*', $hex);
    my $frames = [];
    while (length $bytes)
    {
        my ($length, $kind, $ordinal) = unpack 'N a x11 Q>', $bytes;
        my $frame = substr $bytes, 0, $length, '';
        my $source = unpack 'n', substr $frame, 32, 2;
        push @$frames, "$kind " . ($ordinal & 0xffff) . ($kind eq 'R' ? ' ' . substr($frame, 36, $source) . '/' . substr($frame, 36 + $source) : '')
            if $kind ne 'C';
        next if $kind ne 'C';
        push @transactions, join ', ', @$frames;
        $frames = [];
    }
    return @transactions;
}

sql(q{CREATE ROLE mallory; CREATE SCHEMA own AUTHORIZATION mallory; CREATE ROLE alice; CREATE SCHEMA near AUTHORIZATION alice;
    SET ROLE alice; CREATE TABLE near.t (owner text); SELECT clairon.watch('near.t', 'USER', 'owner');
    SET ROLE mallory; CREATE TABLE own.t (id int PRIMARY KEY, owner text); ALTER TABLE own.t REPLICA IDENTITY FULL;
    CREATE TABLE own.many (owner text);
    SELECT clairon.watch('own.t', 'USER', 'owner', live => true);
    SELECT clairon.watch('own.many', 'USER', 'owner');
    RESET ROLE;
    INSERT INTO clairon.rule SELECT (jsonb_populate_record(rule, jsonb_build_object('name', 'r' || i))).*
        FROM clairon.rule, generate_series(1, 30000) AS i WHERE relation = 'own.many'::regclass;
    SELECT pg_create_logical_replication_slot('slot', 'clairon');});
my $rows = 100;
sql(join '', map {
    "BEGIN; UPDATE clairon.rule SET retry_limit = $_ WHERE relation = 'own.t'::regclass; COMMIT;
     BEGIN; INSERT INTO own.t VALUES ($_, 'u'); COMMIT; BEGIN; INSERT INTO near.t VALUES ('a'); COMMIT;\n"
} 1 .. $rows);
sql('REINDEX INDEX clairon.rule_pkey'); # the index as of the changes was deleted: all rows of the table are read
my @transactions = transactions('100ms');
my %count;
$count{$_}++ for @transactions;
is(scalar @transactions, 2 * $rows, 'each transaction of a row has a frame');
is(scalar(grep { m{^N 5$|^R 7 own\.t/(default)?$} } @transactions), 2 * $rows, 'a row is sent, or reloads lists of its table');
cmp_ok($count{'R 7 own.t/'} // 0, '>', 0, 'rows are denied while the rules are unread, and reload all lists of the table');
cmp_ok($count{'N 5'} // 0, '>', $rows, 'rows are sent until then');
is((grep { /^R/ } @transactions[ map { 2 * $_ + 1 } 0 .. $rows - 1 ]), 0, 'rows of another owner are sent');
like(sql(q{SELECT denied FROM clairon.status}), qr/mallory.*time|time.*mallory/, 'clairon.status names the owner and the account');
sql(q{BEGIN; UPDATE clairon.rule SET operations = 2 WHERE relation = 'own.t'::regclass; INSERT INTO own.t VALUES (1001, 'u');
    COMMIT; TRUNCATE own.t; INSERT INTO near.t VALUES ('a')});
is_deeply([ transactions('1s') ], [ 'R 7 own.t/default', 'N 5' ], 'with time the rules are read again, and the changed rule applies');
done_testing();
