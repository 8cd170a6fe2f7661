# Tests a transaction that alternates notifications and membership changes: each notification is sent to the users who
# are members at that point of the transaction.
use strict;
use warnings;

use Clairon::Test qw(wait_until);
use Test::More;

use constant TURNS => 600;    # more than one batch of the relay

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);

sub sends { my ($audience, $target, $mark, $ack) = @_;
    return "PERFORM clairon.notify('$audience', '{$target}', jsonb_build_object('mark', $mark)" . ($ack ? ', ack_required => true' : '') . '); ' }
sub joins  { return "INSERT INTO clairon.member VALUES ('TEAM', 't1', '$_[0]'); " }
sub leaves { return "DELETE FROM clairon.member WHERE user_id = '$_[0]'; " }
sub in_transaction { return $pg->safe_psql('postgres', "DO \$\$ BEGIN @_ END \$\$") }
sub marks { my ($client) = @_; return join ' ', map { $_->{payload}{mark} } $client->notifications }
sub wait_for_mark { my ($client, $mark) = @_; return $client->run_until($mark, sub { marks($client) =~ /\b$mark\b/ }) }

for my $ack (0, 1)
{
    my ($joins, $leaves) = map { $relay->client("$_$ack") } qw(joins leaves);
    in_transaction(joins("leaves$ack"), sends('USER', "leaves$ack,joins$ack", q{'ready'}));
    wait_for_mark($_, 'ready') for $joins, $leaves;
    in_transaction(sends('USER', 'nobody', q{'other'}), joins("joins$ack"), sends('TEAM', 't1', q{'joined'}, $ack),
        leaves("leaves$ack"), sends('TEAM', 't1', q{'left'}, $ack), sends('USER', "leaves$ack,joins$ack", q{'end'}));
    wait_for_mark($_, 'end') for $joins, $leaves;
    is(marks($joins), 'ready joined left end', 'a new member receives later notifications' . ($ack ? ' with ack_required' : ''));
    unlike(marks($leaves), qr/left/, 'a former member does not receive later notifications');
}

my $many = $relay->client('many');
in_transaction(sends('USER', 'many', q{'ready'}));
wait_for_mark($many, 'ready');
my $mark = $relay->log_mark;
in_transaction('FOR i IN 1 .. ' . TURNS . ' LOOP ', q{INSERT INTO clairon.member VALUES ('CLASS', 'c' || i, 'many'); },
    q{PERFORM clairon.notify('CLASS', ARRAY['c' || i], jsonb_build_object('mark', i)); }, 'END LOOP;');
$many->run_until('the last notification arrives', sub { $many->notifications > TURNS });
is(marks($many), join(' ', 'ready', 1 .. TURNS),
    'a user who joins many groups in one transaction receives a notification for each group');
unlike(substr($relay->log_text, $mark), qr/level=(?:warn|error)/, 'the feed does not restart');

done_testing();
