# Tests that the replacement of the extension in docker/UPGRADE.md keeps rules, members and the slot: the relay streams
# again by itself, and its clients receive no gap.
use strict;
use warnings;

use Clairon::Test qw(wait_confirmed scratch);
use PostgreSQL::Test::Utils qw(slurp_file run_log);
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $user  = $relay->client('u1');
my $file  = scratch() . '/clairon.sql';

$pg->safe_psql('postgres', q{CREATE TABLE t (id int PRIMARY KEY, owner text); ALTER TABLE t REPLICA IDENTITY FULL;
    SELECT clairon.watch('t', 'USER', 'owner', live => true, only_when => 'id > 0');
    SELECT clairon.watch('t', 'ROLE', '=admin', name => 'admins');
    INSERT INTO clairon.member VALUES ('ROLE', 'admin', 'u1'); INSERT INTO t VALUES (1, 'u1')});
$user->wait_row(1);
wait_confirmed($pg);
my $rules = $pg->safe_psql('postgres', 'SELECT * FROM clairon.rules ORDER BY 1, 2');
my $mark  = $relay->log_mark;

# The commands of the page, in this database.
my ($page) = slurp_file(Clairon::Test::top() . '/docker/UPGRADE.md') =~ /Replacing it drops.*?```\n(.*?)```/s;
is(scalar(() = $page =~ /pg_dump --data-only --table='clairon\.\*'|'DROP EXTENSION clairon' -c 'CREATE EXTENSION clairon'|--file=\S+clairon\.sql/g),
    4, 'the page has these commands');
ok(run_log([ 'pg_dump', '--data-only', '--table=clairon.*', "--file=$file", '-d', $pg->connstr('postgres') ]), 'the rules are dumped');
ok(run_log([ 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-d', $pg->connstr('postgres'), '-c', 'DROP EXTENSION clairon', '-c', 'CREATE EXTENSION clairon' ]),
    'the extension is replaced');
ok(run_log([ 'psql', '-qX', '-v', 'ON_ERROR_STOP=1', '-o', '/dev/null', '-d', $pg->connstr('postgres'), '-f', $file ]), 'the rules are restored');

is($pg->safe_psql('postgres', 'SELECT * FROM clairon.rules ORDER BY 1, 2'), $rules, 'the rules are the same');
$pg->safe_psql('postgres', q{INSERT INTO t VALUES (2, 'u1')});
$user->wait_row(2);
is($user->gaps, '', 'the client received no gap');
my $log = substr $relay->log_text, $mark;
unlike($log, qr/slot created/, 'the relay kept its slot');
like($_, qr/the extension was dropped: .*only if the error repeats/, 'the hint does not drop the slot after one error') for $log =~ /^.*msg="PostgreSQL ended the stream".*pg_class.*$/mg;

done_testing();
