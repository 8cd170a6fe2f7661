# Tests that the console reports why the feed does not stream, and that only admins receive the reason; and that the
# rules of the console contain what distinguishes a live rule and its acknowledgements.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.console' => 'on' });

sub http
{
    my ($path) = @_;
    return Clairon::Test::RawSocket->new($relay)->request(GET => $path, Host => 'x', Authorization => 'Bearer ' . token(sub => 'root', admin => JSON::true));
}
sub overview { return http('/v1/console')->{json}{relay} }

# The rules.
$pg->safe_psql('postgres', q{CREATE TABLE tasks (id int PRIMARY KEY, owner text);
    ALTER TABLE tasks REPLICA IDENTITY FULL;
    SELECT clairon.watch('tasks', 'USER', 'owner', live => true, ack_required => true, retry_limit => 2, ack_timeout => '3 seconds', columns => '{id}')});
my $rules;
wait_until('the relay has read the rules', sub { $rules = http('/v1/console/rules')->{json}{rules}; $rules && @$rules });
is_deeply({ map { $_ => $rules->[0]{$_} } qw(live ack_required retry_limit ack_timeout columns) },
    { live => JSON::true, ack_required => JSON::true, retry_limit => 2, ack_timeout => '00:00:03', columns => 'id' },
    'a rule is listed with live, columns and its acknowledgements');

# The feed cannot sign in.
is(overview()->{reason}, undef, 'a streaming feed has no reason');
$pg->safe_psql('postgres', 'ALTER ROLE relay NOLOGIN');
$pg->safe_psql('postgres', 'SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active');
wait_until('the overview has the reason', sub { (overview()->{reason} // '') =~ /not permitted to log in/ });
my $relay_state = overview();
is($relay_state->{feed}, 'down', 'the overview reports the feed as down');
like($relay_state->{reason}, qr/^could not connect to PostgreSQL: .*FATAL: .*\. run ALTER ROLE \.\.\. LOGIN/, 'the reason has the error of the server, and a hint');
unlike(http($_)->{body}, qr/log in/, "$_ does not contain the reason") for '/readyz', '/metrics';

# The reason ends with its cause.
$pg->safe_psql('postgres', 'ALTER ROLE relay LOGIN');
wait_until('the feed streams again', sub { overview()->{feed} eq 'streaming' });
is(overview()->{reason}, undef, 'a feed that streams again has no reason');

done_testing();
