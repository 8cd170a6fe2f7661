# Tests that a read of many rows needs little memory, stops at its limit, and can be canceled.
use strict;
use warnings;

use Clairon::Test;
use Test::More;

my $pg = Clairon::Test::postgresql('main', conf => "autovacuum = off\nwork_mem = '1MB'");
sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns the peak memory of the session, in kB.
sub peak
{
    my ($session) = @_;
    my $pid = $session->query_safe('SELECT pg_backend_pid()');
    open my $status, '<', "/proc/$pid/status" or die $!;
    my ($peak) = join('', <$status>) =~ /^VmHWM:\s+(\d+)/m;
    return $peak;
}

sql(q{
    CREATE TABLE many (id int PRIMARY KEY, body text, large text);
    ALTER TABLE many ALTER large SET STORAGE EXTERNAL;
    INSERT INTO many SELECT n, repeat('x', 1500), CASE WHEN n % 1000 = 0 THEN repeat('y', 500000) END FROM generate_series(1, 60000) AS n;
    ALTER TABLE many REPLICA IDENTITY FULL;
    SELECT clairon.watch('many', 'ALL', live => true);
    SELECT clairon.watch('many', 'ALL', name => 'slow', only_when => $$md5(repeat(body, 20000)) = '0'$$, live => true);
    SELECT clairon.watch('many', 'ALL', name => 'errors', only_when => '1 / (id % 2) > 0', live => true)});

my $session = $pg->background_psql('postgres', on_error_stop => 0);
my $before = peak($session);
is($session->query_safe(q{SELECT count(*), sum(length(row::text)) > 100000000 FROM clairon.rows('many', 'u1', max_rows => 100000) AS row}),
    '60000|t', '60000 rows are read');
cmp_ok(peak($session) - $before, '<', 40_000, 'the rows are read in less than 40 MB');

# A transaction's statistics count the tuples that its scans returned, plus unreported tuples of earlier transactions.
my $tuples_read = q{SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables WHERE relname = 'many'};
$session->query_safe('BEGIN; SAVEPOINT s');
my $earlier = $session->query_safe($tuples_read);
$session->query(q{SELECT FROM clairon.rows('many', 'u1', max_rows => 100)});
like($session->{stderr}, qr/rule "default" on "many" addresses more than 100 rows to the user/, 'too many rows cause an error');
$session->{stderr} = '';
$session->query_safe('ROLLBACK TO s');
cmp_ok($session->query_safe($tuples_read) - $earlier, '<', 1000, 'the scan ends soon after the limit is reached');
$session->query_safe('COMMIT');

is($session->query_safe(q{SET client_min_messages = error; SELECT count(*) FROM clairon.rows('many', 'u1', 'errors', max_rows => 100000)}),
    '30000', 'rows with an error in only_when are omitted');
$session->query(q{SET statement_timeout = '300ms'; SELECT count(*) FROM clairon.rows('many', 'u1', 'slow')});
like($session->{stderr}, qr/canceling statement due to statement timeout/, 'a statement timeout ends a slow read');
$session->{stderr} = '';
is($session->query_safe('SELECT current_user = session_user'), 't', 'the session is still usable');
$session->quit;

done_testing();
